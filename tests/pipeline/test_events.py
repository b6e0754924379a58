"""Tests of `Run.events`, `Run.begin` and observers: a run as an Rx user meets it."""

import asyncio
import contextlib

import pytest
from aiostream import pipe
from reactivex import Observer
from reactivex import operators as ops

import streamval as sv
from streamval import bridge
from streamval.errors import RunError, UsageError
from tests.support.sources import Spoken, types


def run_of(*deltas, **options):
    return sv.Pipeline(Spoken(*deltas), **options).start("go")


@pytest.mark.parametrize("how", ["events", "observe"])
async def test_a_slow_consumer_holds_the_source_back(how):
    backend = Spoken(*["word "] * 2000)
    pipeline = sv.Pipeline(backend, chunking="word")
    run = pipeline.start("go")
    source = run.events if how == "events" else pipeline.observe("go")
    read = 0
    async with bridge.to_stream(source).stream() as events:
        reading = asyncio.ensure_future(anext(aiter(events)))
        await asyncio.sleep(0)
        if how == "events":
            run.begin()
        await reading
        for _ in range(50):
            await anext(events)
            read += 1
            for _ in range(20):  # the source could go on
                await asyncio.sleep(0)
            assert backend.said - read < 200
    await run.aclose()
    assert backend.said < 400
    assert backend.closed == 1


async def test_who_leaves_the_events_early_does_not_hold_the_run():
    run = run_of(*["word "] * 2000, chunking="word")
    events = bridge.iterate(run.events)
    first = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    run.begin()
    await first
    for _ in range(1000):  # their buffer is full, and the run waits
        await asyncio.sleep(0)
    assert run.state == "running"
    await events.aclose()
    assert (await run).success


async def test_begin_returns_at_once_and_what_comes_last_can_be_awaited():
    async with run_of("One. ", "Two.") as run:
        seen = []
        run.subscribe(seen.append)
        assert run.begin() is None
        assert (run.state, seen) == ("running", [])
        last = await run.events.pipe(ops.last())
        assert (last.type, last.full_text) == ("completed", "One. Two.")
        assert types(seen)[0] == "started"
        run.begin()  # again: nothing happens
        assert (await run).success


async def test_to_wait_for_the_events_of_a_run_that_has_not_begun_is_refused():
    async with run_of("One.") as run:
        with pytest.raises(RunError, match=r"call run.begin\(\)"):
            await run.events.pipe(ops.filter(lambda event: event.type == "chunk"), ops.last())
        with pytest.raises(RunError, match=r"call run.begin\(\)"):
            await run.events
        assert (await run).success


def test_begin_needs_a_loop():
    with pytest.raises(RuntimeError, match="no running event loop"):
        run_of("One.").begin()


async def test_an_observer_subscribes_as_it_is():
    seen = []
    run = run_of("One.")
    run.subscribe(Observer(lambda e: seen.append(e.type), seen.append, lambda: seen.append("end")))
    await run
    assert seen == ["started", "chunk", "streaming_done", "full_validation", "completed", "end"][:3] + seen[3:]  # fmt: skip
    assert seen[-2:] == ["completed", "end"]

    seen.clear()
    error = OSError("gone")
    run = run_of("One. ", "Two.", error)
    run.subscribe(Observer(lambda e: seen.append(e.type), seen.append, lambda: seen.append("end")))
    run.begin()
    while error not in seen:
        await asyncio.sleep(0)
    assert seen[-2:] == ["completed", error]


async def test_a_coroutine_function_as_on_next_is_refused():
    async def sink(event):
        """Awaited by `run.subscribe` only."""

    class AsyncObserver(Observer):
        async def on_next(self, value):
            pass

    pipeline = sv.Pipeline(sv.ScriptedBackend("One."))
    run = pipeline.start("go")
    for observable in (run.events, pipeline.observe("go"), run.events.pipe(ops.take(1))):
        with pytest.raises(UsageError, match=r"coroutine function.*use run.subscribe"):
            observable.subscribe(sink)
        with pytest.raises(UsageError, match="coroutine function"):
            observable.subscribe(AsyncObserver())
    run.subscribe(sink)
    assert (await run).success


async def test_an_error_that_nothing_handles_is_reported_as_one_of_the_run(reported):
    def begun():
        error = OSError("gone")
        run = run_of("One. ", error)
        return run, error

    run, error = begun()
    run.events.subscribe(lambda event: None)  # no on_error
    run.begin()
    while run.state != "over":
        await asyncio.sleep(0)
    while not reported:
        await asyncio.sleep(0)
    assert [one["message"] for one in reported] == [
        f"Run {run.run_id} ended with an error that nothing handles"
    ]
    assert reported[0]["exception"] is error

    reported.clear()
    handled = []
    run, error = begun()
    run.events.subscribe(lambda event: None, handled.append)
    run.begin()
    while not handled:
        await asyncio.sleep(0)
    run, error = begun()
    run.begin()
    with pytest.raises(OSError, match="gone"):
        await run
    assert reported == []


@pytest.mark.parametrize("operator", [pipe.take(2), pipe.takewhile(lambda e: e.type == "started"), pipe.map(lambda e: 1 / (e.type != "chunk"))])  # fmt: skip
async def test_the_end_of_an_aiostream_pipe_closes_the_run(operator):
    backend = Spoken("One. ", "Two. ", asyncio.Event().wait)
    run = sv.Pipeline(backend).start("go")
    with contextlib.suppress(ZeroDivisionError):
        await (run | operator | pipe.list())
    assert backend.closed == 1
    assert run.state == "over"
