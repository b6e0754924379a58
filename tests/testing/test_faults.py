"""Tests of `streamval.testing.faults`."""

import asyncio

import pytest

import streamval as sv
from streamval.errors import StallError, StreamBrokenError
from streamval.testing import CUT, STALL, FaultyBackend, run_virtually


async def test_it_says_waits_calls_and_raises():
    called = asyncio.Event()

    async def call():
        called.set()

    backend = FaultyBackend("One. ", 0, call, sv.types.Delta("Two."), OSError("gone"))
    with pytest.raises(OSError, match="gone"):
        await sv.Pipeline(backend).run("go")
    assert called.is_set()
    assert (backend.opened, backend.closed, backend.said) == (1, 1, 2)
    assert backend.requests[0].messages[-1].content == "go"


async def test_it_cuts_and_stalls():
    with pytest.raises(StreamBrokenError, match="as its script says"):
        await sv.Pipeline(FaultyBackend("One. ", CUT)).run("go")

    async def stalled():
        backend = FaultyBackend("One. ", STALL)
        with pytest.raises(StallError):
            await sv.Pipeline(backend).run("go")
        return backend.closed

    closed, seconds = await asyncio.to_thread(lambda: run_virtually(stalled()))
    assert closed == 1
    assert seconds >= 120


async def test_a_script_an_attempt_and_a_slow_end():
    closing = asyncio.Event()

    async def slow():
        await asyncio.sleep(0)
        closing.set()

    backend = FaultyBackend(["Bad! ", "x"], ["Good."], closing=slow)
    calm = sv.stream_check(lambda text: not text.endswith("!"), "stay calm")
    pipeline = sv.Pipeline(backend, requirements=[calm], retry=sv.Repair(mode="restart"))
    assert (await pipeline.run("go")).text == "Good."
    assert closing.is_set()
    assert backend.closed == 2
