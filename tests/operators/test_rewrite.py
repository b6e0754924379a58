"""Tests of `streamval.operators.rewrite`."""

from reactivex.testing import ReactiveTest, TestScheduler

from streamval import Chunk
from streamval.operators import (
    rewrite,
)

on_next, on_error, on_completed = (
    ReactiveTest.on_next,
    ReactiveTest.on_error,
    ReactiveTest.on_completed,
)


def played(operator, *messages):
    """What comes out, and when: (time, value), then how it ended."""
    scheduler = TestScheduler()
    source = scheduler.create_hot_observable(*messages)
    result = scheduler.start(lambda: source.pipe(operator))
    seen = []
    for message in result.messages:
        if message.value.kind == "N":
            seen.append((int(message.time), message.value.value))
        else:
            seen.append((int(message.time), message.value.kind))
    disposed = [int(s.unsubscribe) for s in source.subscriptions]
    return seen, disposed


def c(index, end=None):
    return Chunk(f"chunk {index}", index, index * 10, end or index * 10 + 9, " ")


def test_rewrite_changes_the_text_and_nothing_else():
    seen, _ = played(rewrite(str.upper), on_next(210, c(1)), on_completed(220))
    assert seen == [(210, Chunk("CHUNK 1", 1, 10, 19, " ")), (220, "C")]


def test_what_rewrite_raises_is_an_error():
    seen, disposed = played(rewrite(lambda _: 1 / 0), on_next(210, c(0)), on_next(220, c(1)))
    assert seen == [(210, "E")]
    assert disposed == [210]
