"""Tests of `streamval.operators.rewrite`."""

from reactivex.testing import ReactiveTest

from streamval import Chunk
from streamval.operators import rewrite
from tests.support.operators import c, played

on_next, on_error, on_completed = (
    ReactiveTest.on_next,
    ReactiveTest.on_error,
    ReactiveTest.on_completed,
)


def test_rewrite_changes_the_text_and_nothing_else():
    seen, _ = played(rewrite(str.upper), on_next(210, c(1)), on_completed(220))
    assert seen == [(210, Chunk("CHUNK 1", 1, 10, 19, " ")), (220, "C")]


def test_what_rewrite_raises_is_an_error():
    seen, disposed = played(rewrite(lambda _: 1 / 0), on_next(210, c(0)), on_next(220, c(1)))
    assert seen == [(210, "E")]
    assert disposed == [210]
