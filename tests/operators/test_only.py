"""Tests of `streamval.operators.only`."""

import reactivex
from reactivex.testing import ReactiveTest, TestScheduler

from streamval.events import ChunkEvent, StreamingDoneEvent, TokenEvent
from streamval.operators import (
    only,
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


def test_only():
    token = TokenEvent(run_id="r", attempt=1, text="a")
    done = StreamingDoneEvent(run_id="r", attempt=1, full_text="a")
    seen, _ = played(only(TokenEvent), on_next(210, token), on_next(220, done), on_completed(230))
    assert seen == [(210, token), (230, "C")]
    found = []
    reactivex.of(token, done).pipe(only(ChunkEvent, StreamingDoneEvent)).subscribe(found.append)
    assert found == [done]
