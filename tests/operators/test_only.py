"""Tests of `streamval.operators.only`."""

import reactivex
from reactivex.testing import ReactiveTest

from streamval.events import ChunkEvent, StreamingDoneEvent, TokenEvent
from streamval.operators import only
from tests.support.operators import played

on_next, on_error, on_completed = (
    ReactiveTest.on_next,
    ReactiveTest.on_error,
    ReactiveTest.on_completed,
)


def test_only():
    token = TokenEvent(run_id="r", attempt=1, text="a")
    done = StreamingDoneEvent(run_id="r", attempt=1, full_text="a")
    seen, _ = played(only(TokenEvent), on_next(210, token), on_next(220, done), on_completed(230))
    assert seen == [(210, token), (230, "C")]
    found = []
    reactivex.of(token, done).pipe(only(ChunkEvent, StreamingDoneEvent)).subscribe(found.append)
    assert found == [done]
