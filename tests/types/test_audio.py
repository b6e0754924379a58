"""Tests of `streamval.types.audio`."""

import pytest

import streamval as sv
from streamval import requirements as reqs
from streamval.chunkers import FrameChunker
from streamval.types.audio import PCM, AudioChunk
from tests.support.sources import Spoken, types
from tests.support.voice import sliced, speech


async def test_chunks_and_events_carry_the_bytes_and_survive_json():
    sound = speech(1.0)
    backend = Spoken(*sliced(sound, 1001))
    run = sv.Pipeline(backend, chunking=FrameChunker(0.25), requirements=[reqs.level(at_most=0)])
    started = run.start("go")
    events = []
    started.subscribe(events.append)
    chunks = [chunk async for chunk in started.chunks()]
    assert all(isinstance(chunk, AudioChunk) for chunk in chunks)
    assert b"".join(chunk.text for chunk in chunks) == sound == started.audio
    told = [e for e in events if e.type == "chunk"]
    assert [e.audio for e in told] == [chunk.text for chunk in chunks]
    assert sv.EventAdapter.validate_json(sv.EventAdapter.dump_json(told[0])) == told[0]
    assert types(events)[-3:] == ["streaming_done", "full_validation", "completed"]
    assert (await started).success


@pytest.mark.parametrize(("width", "full"), [(1, 127), (2, 32767), (4, 2**31 - 1)])
def test_levels_of_every_width(width, full):
    pcm = PCM(width=width)
    loud = full + 128 if width == 1 else full
    sound = loud.to_bytes(width, "little") * 100
    assert pcm.full_scale == full
    assert pcm.level(sound) == pytest.approx(0.0, abs=0.1)
    quiet = (128).to_bytes(1, "little") * 10 if width == 1 else bytes(10 * width)
    assert pcm.level(quiet) == pcm.level(b"") == float("-inf")
