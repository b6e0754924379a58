"""Tests of `streamval.sinks.collect`."""

import streamval as sv
from streamval.sinks import Collect
from tests.support.sources import Spoken, types


async def test_collect():
    seen = Collect()
    run = sv.Pipeline(Spoken("One. Two.")).start("go")
    run.subscribe(seen)
    await run
    assert len(seen) == 5
    assert [event.text for event in seen.of(sv.ChunkEvent)] == ["One.", "Two."]
    assert types(seen) == ["started", "chunk", "chunk", "streaming_done", "completed"]
