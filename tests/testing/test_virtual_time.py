"""Tests of `streamval.testing.virtual_time`."""

import asyncio
import threading
import time

import pytest
from reactivex import operators as ops

import streamval as sv
from streamval import bridge
from streamval.testing import FaultyBackend, run_virtually, virtual_time


def test_hours_take_no_time_and_their_order_stays():
    order = []

    async def wait(seconds):
        await asyncio.sleep(seconds)
        order.append(seconds)
        return seconds

    async def main():
        return await asyncio.gather(*(wait(hours * 3600) for hours in (3, 1, 2)))

    began = time.monotonic()
    result, seconds = run_virtually(main())
    assert (result, order, seconds) == ([10800, 3600, 7200], [3600, 7200, 10800], 10800)
    assert time.monotonic() - began < 60


def test_a_pipeline_a_stall_and_time_operators_run_on_it():
    async def stalled():
        await sv.Pipeline(FaultyBackend("One. ", 1000.0), stall_timeout=100).run("go")

    with pytest.raises(sv.errors.StallError, match="no delta for 100 seconds"):
        run_virtually(stalled())

    async def late():
        backend = FaultyBackend("One. ", 10, "Two. ", 10, "Three.")
        chunks = backend.observe("go").pipe(ops.timestamp(), ops.delay(5.0))
        return [item.value async for item in bridge.iterate(chunks)]

    assert run_virtually(late()) == (["One. ", "Two. ", "Three."], 25)


def test_a_tick_moves_the_clock_for_who_looks_at_it():
    async def main():
        loop = asyncio.get_running_loop()
        while loop.time() < 1:
            await asyncio.sleep(0)

    _, seconds = run_virtually(main(), tick=0.1)
    assert seconds == pytest.approx(1, abs=0.11)


def test_what_it_raises_comes_out():
    async def main():
        raise LookupError("inside")

    with pytest.raises(LookupError, match="inside"):
        run_virtually(main())


def test_a_coroutine_that_can_never_end_is_said_to_be_so(monkeypatch):
    monkeypatch.setattr(virtual_time, "QUIET", 0.01)
    with pytest.raises(RuntimeError, match="nothing is left to wait for"):
        run_virtually(asyncio.Event().wait())


def test_a_thread_is_waited_for():
    gate = threading.Event()

    async def main():
        waiting = asyncio.ensure_future(asyncio.to_thread(gate.wait, 30))
        await asyncio.sleep(5)
        gate.set()
        return await waiting

    assert run_virtually(main()) == (True, 5)
