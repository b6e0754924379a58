"""Tests of `streamval.pipeline.subscribers`."""

import asyncio

import pytest
import reactivex

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


@pytest.mark.parametrize("events", [sv.ChunkEvent, ("chunk",), [sv.ChunkEvent], (int,)])
async def test_events_that_are_no_classes_of_events_are_refused(events):
    run = sv.Pipeline(Spoken("One.")).start("go")
    for sink in (print, reactivex.Observer()):
        with pytest.raises(UsageError, match="events must be a tuple of classes of events"):
            run.subscribe(sink, events=events)


async def test_each_subscriber_gets_the_events_that_it_wants_in_their_order():
    seen, checks, everything, ended = [], [], [], []
    run = sv.Pipeline(Spoken("One. Two."), requirements=[Judge()]).start("go")
    run.subscribe(seen.append, events=(sv.ChunkEvent, sv.CompletedEvent))
    run.subscribe(checks.append, events=(sv.QuickCheckEvent,))
    run.subscribe(everything.append)
    run.subscribe(print, events=())
    observer = reactivex.Observer(ended.append, on_completed=lambda: ended.append("end"))
    run.subscribe(observer, events=(sv.QuickCheckEvent,))
    await run
    assert types(seen) == ["chunk", "chunk", "completed"]
    assert types(checks) == ["quick_check", "quick_check"]
    assert seen + checks == [one for one in everything if one in seen] + [
        one for one in everything if one in checks
    ]
    assert [one if one == "end" else one.type for one in ended] == [
        *("quick_check", "quick_check", "completed", "end")
    ]


async def test_a_subscriber_that_comes_later_changes_which_events_are_made():
    seen = []
    run = sv.Pipeline(Spoken("One. Two. Three.")).start("go")

    def first(event):
        if event.chunk_index == 1:
            run.subscribe(seen.append)

    run.subscribe(first, events=(sv.ChunkEvent,))
    await run
    assert types(seen)[0] == "chunk"
    assert types(seen)[-1] == "completed"
    assert [event.chunk_index for event in seen if event.type == "chunk"] == [2]


async def test_subscribing_to_a_run_that_is_over_is_told():
    run = sv.Pipeline(Spoken("One.")).start("go")
    await run
    with pytest.raises(RunError, match="over"):
        run.subscribe(print)
