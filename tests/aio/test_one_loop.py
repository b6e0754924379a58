"""Tests of `streamval.aio.one_loop`."""

import asyncio
import threading

import pytest

import streamval as sv
from streamval.errors import RunError
from tests.support.sources import Spoken


async def test_a_pipeline_used_from_two_event_loops_is_told():
    told = []

    async def elsewhere():
        with pytest.raises(RunError, match="another event loop"):
            await pipeline.run("go")
        told.append(True)

    pipeline = sv.Pipeline(Spoken("One. ", "Two. ", 1000))
    async with pipeline.start("go") as run:
        async for event in run:
            if event.type == "chunk":
                thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
                thread.start()
                await asyncio.to_thread(thread.join)
                break
    assert told == [True]


def test_one_loop_after_another_is_fine():
    pipeline = sv.Pipeline(sv.ScriptedBackend("One."))
    assert [asyncio.run(pipeline.run("go")).text for _ in range(2)] == ["One.", "One."]
