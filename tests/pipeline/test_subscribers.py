"""Tests of `streamval.pipeline.subscribers`."""

import asyncio

import pytest

import streamval as sv
from streamval import bridge
from streamval.errors import RunError, UsageError
from tests.support.sources import Judge, Spoken, types


async def test_what_a_subscriber_starts_may_outlive_the_run():
    started = []

    async def background():
        await asyncio.sleep(0.005)
        return [text async for text in bridge.iterate(Spoken("later").observe("q"))]

    run = sv.Pipeline(Spoken("One.")).start("go")
    run.subscribe(
        lambda e: started.append(asyncio.ensure_future(background())) if not started else None
    )
    await run
    assert await started[0] == ["later"]


@pytest.mark.parametrize("error", [ValueError("boom"), asyncio.CancelledError()])
async def test_a_sink_that_sometimes_raises_and_sometimes_waits(error, reported):
    seen = []

    async def handle(event):
        seen.append(event)

    def sink(event):
        if event.type == "quick_check" and event.chunk_index == 3:
            raise error
        return handle(event)

    run = sv.Pipeline(sv.ScriptedBackend("It is here. " * 200), requirements=[Judge()]).start("go")
    run.subscribe(sink)
    async with asyncio.timeout(60):
        assert (await run).success
    assert seen[-1].type == "completed"
    assert len(reported) == 1


async def test_an_async_sink_cancelled_from_inside_goes_on(reported):
    seen = []

    async def sink(event):
        seen.append(event)
        if len(seen) == 2:
            raise asyncio.CancelledError

    run = sv.Pipeline(sv.ScriptedBackend("It is here. " * 100)).start("go")
    run.subscribe(sink)
    async with asyncio.timeout(60):
        await run
    assert seen[-1].type == "completed"


async def test_leaving_while_slow_sinks_finish_is_no_cancellation():
    seen = []

    async def slow(event):
        await asyncio.sleep(0.005)
        seen.append(event.type)

    async with sv.Pipeline(sv.ScriptedBackend("One. Two. Three.")).start("go") as run:
        run.subscribe(slow)
        async for event in run:
            if event.type == "completed":
                break
    assert seen[-1] == "completed"
    assert (await run).success


async def test_unsubscribed_in_the_middle_nothing_more_comes():
    seen = []

    async def sink(event):
        seen.append(event)
        subscription.dispose()

    run = sv.Pipeline(sv.ScriptedBackend("One. Two. Three.")).start("go")
    subscription = run.subscribe(sink)
    await run
    assert len(seen) == 1


async def test_a_subscriber_that_waits_for_the_run_is_told(reported):
    async def sink(event):
        if event.type == "completed":
            await run

    run = sv.Pipeline(Spoken("One.")).start("go")
    run.subscribe(sink)
    async with asyncio.timeout(60):
        await run
    assert isinstance(reported[0]["exception"], RunError)


async def test_unsubscribing():
    seen = []
    run = sv.Pipeline(Spoken("One.")).start("go")
    subscription = run.subscribe(seen.append)
    run.subscribe(lambda event: subscription.dispose())
    await run
    assert types(seen) == ["started"]


@pytest.mark.parametrize(("sink", "overflow"), [("x", "hold"), (print, "explode")])
async def test_wrong_subscribers_are_refused(sink, overflow):
    with pytest.raises(UsageError):
        sv.Pipeline(Spoken("One.")).start("go").subscribe(sink, overflow)


async def test_subscribing_to_a_run_that_is_over_is_told():
    run = sv.Pipeline(Spoken("One.")).start("go")
    await run
    with pytest.raises(RunError, match="over"):
        run.subscribe(print)
