"""Tests of `streamval.pipeline.tap`."""

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


def test_an_error_passes_through():
    error = OSError("gone")
    assert taken(reactivex.throw(error).pipe(tap(print))) == [error]
