"""Tests of `streamval.sinks.callback`."""

import pytest

import streamval as sv
from streamval.errors import UsageError
from streamval.sinks import Callback
from tests.support.sources import Spoken


async def test_callback_is_for_some_events_and_may_be_async():
    plain, later = [], []

    async def slow(event):
        later.append(event.text)

    run = sv.Pipeline(Spoken("One. Two.")).start("go")
    run.subscribe(Callback(lambda event: plain.append(event.text), sv.ChunkEvent))
    run.subscribe(Callback(slow, sv.ChunkEvent))
    await run
    assert plain == later == ["One.", "Two."]
    with pytest.raises(UsageError):
        Callback("x")
