"""Tests of `streamval.pipeline.tap`."""

import pytest
import reactivex

from streamval.pipeline.tap import tap


def taken(observable):
    items = []
    observable.subscribe(items.append, items.append, lambda: items.append("end"))
    return items


def test_each_item_is_looked_at_before_it_goes_on():
    seen = []
    assert taken(reactivex.of(1, 2).pipe(tap(seen.append))) == [1, 2, "end"]
    assert seen == [1, 2]


def test_what_follows_comes_after_the_last_item_and_is_looked_at_too():
    seen = []
    source = reactivex.of(1, 2).pipe(tap(seen.append, then=lambda: reactivex.of(sum(seen))))
    assert taken(source) == [1, 2, 3, "end"]
    assert seen == [1, 2, 3]


def test_an_error_is_followed_by_nothing():
    error = OSError("gone")
    source = reactivex.throw(error).pipe(tap(lambda _: None, then=lambda: pytest.fail("no")))
    assert taken(source) == [error]
