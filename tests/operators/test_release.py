"""Tests of `streamval.operators.release`."""

import pytest
import reactivex
from reactivex.testing import ReactiveTest

from streamval.operators import release
from streamval.validation import Check
from tests.support.operators import c, played, texts

on_next, on_error, on_completed = (
    ReactiveTest.on_next,
    ReactiveTest.on_error,
    ReactiveTest.on_completed,
)


def k(index, success="pass", covered=None):
    return Check(c(index), success, (), covered)


def test_without_holds_a_chunk_goes_with_its_check():
    seen, _ = played(
        release(),
        *(on_next(210, k(0)), on_next(220, k(1, "unknown")), on_next(230, k(2, "fail"))),
        on_completed(240),
    )
    assert texts(seen) == [(210, "chunk 0"), (220, "chunk 1"), (240, "C")]


def test_held_chunks_go_when_a_later_pass_covers_them():
    seen, _ = played(
        release(),
        on_next(210, k(0, "unknown", covered=0)),
        on_next(220, k(1, "pass", covered=9)),  # the pass was about chunk 0 alone
        on_next(230, k(2, "pass", covered=29)),
        on_completed(240),
    )
    assert texts(seen) == [(220, "chunk 0"), (230, "chunk 1"), (230, "chunk 2"), (240, "C")]


@pytest.mark.parametrize(("final", "released"), [("pass", ["chunk 0"]), ("fail", [])])
def test_held_chunks_wait_for_the_final_validation(final, released):
    found = []
    source = reactivex.of(k(0, "unknown", covered=0), Check(None, final))
    source.pipe(release()).subscribe(found.append)
    assert [chunk.text for chunk in found] == released


def test_what_is_still_held_at_the_end_is_not_released():
    found = []
    reactivex.of(k(0, "unknown", covered=0)).pipe(release()).subscribe(found.append)
    assert found == []
