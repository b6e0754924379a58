"""Tests of `streamval.aio.pump`."""

import asyncio

import pytest
from reactivex import Subject
from reactivex import operators as ops

import streamval as sv
from streamval import bridge
from streamval.aio import pump
from streamval.errors import DeltaTypeError, StallError, StreamBrokenError
from streamval.testing import run_virtually
from tests.support.async_source import Source, collect
from tests.support.sources import Judge, Spoken


async def test_a_source_never_sees_what_an_observer_raises():
    caught = []

    async def source():
        try:
            yield 1
        except KeyError as error:
            caught.append(error)
            raise

    def bad(_):
        raise KeyError

    with pytest.raises(KeyError):
        async with bridge.Subscription(bridge.from_async_iterable(source), bad) as subscription:
            await subscription.completed()
    assert caught == []


async def test_a_source_cancelled_from_inside_is_an_error_not_a_cancellation():
    async def source():
        yield 1
        raise asyncio.CancelledError

    with pytest.raises(StreamBrokenError, match="from inside"):
        await collect(source)


async def test_an_error_while_closing_is_reported(reported):
    async def source():
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            raise OSError("closing")

    async with bridge.to_stream(bridge.from_async_iterable(source)).stream() as items:
        async for _ in items:
            break
    assert [str(context["exception"]) for context in reported] == ["closing"]


async def test_a_slow_reader_holds_the_source_back():
    source = Source(*range(100))
    ahead = []
    async with bridge.to_stream(bridge.from_async_iterable(source), buffer=5).stream() as items:
        async for item in items:
            ahead.append(source.read - item)
            await asyncio.sleep(0)
    assert max(ahead) <= 6


async def test_a_source_that_never_waits_lets_others_run():
    turns = 0

    async def other():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    async with bridge.Subscription(
        bridge.from_async_iterable(Source(*range(10_000))), lambda _: None
    ) as subscription:
        await subscription.completed()
    task.cancel()
    assert turns >= 10_000 // pump.FAIR_SHARE


def test_a_stall_is_an_error_and_closes_the_source():
    source = Source(1, hang=True)
    with pytest.raises(StallError, match="3 seconds"):
        run_virtually(collect(source, stall_timeout=3))
    assert source.closed == 1


def test_a_stall_is_seen_even_after_a_hold_that_came_and_went():
    async def main():
        gate = asyncio.Event()

        async def judge(_):
            await gate.wait()
            return "pass"

        async def sink(event):
            pass

        sentences = [f"Sentence number {n} is here. " for n in range(40)]
        run = sv.Pipeline(
            Spoken(*sentences, 10_000), requirements=[Judge(judge)], stall_timeout=5
        ).start("go")
        run.subscribe(sink)
        asyncio.get_running_loop().call_later(1, gate.set)
        with pytest.raises(StallError):
            await run

    run_virtually(main())


@pytest.mark.parametrize("cleanup", [0, 1_000_000])
def test_a_stall_is_an_error_whatever_the_backend_does_about_its_cancellation(cleanup):
    class Swallows(sv.Backend):
        async def stream(self, request):
            yield "One. "
            try:
                await asyncio.sleep(10_000)
            except asyncio.CancelledError:
                await asyncio.sleep(cleanup)

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        with pytest.raises(StallError):
            await sv.Pipeline(Swallows(), stall_timeout=2).run("go")
        return asyncio.get_running_loop().time()

    assert run_virtually(main())[0] < 10


async def test_disposing_from_inside_a_validator_does_not_interrupt_the_sources_clean_up():
    stop, log = Subject(), []

    async def source(_):
        try:
            for n in range(5):
                yield f"w{n} "
                await asyncio.sleep(0)
        finally:
            await asyncio.sleep(0.001)
            log.append("closed")

    def stops(word):
        if word == "w2":
            stop.on_next(None)
        return True

    pipeline = sv.Pipeline(
        sv.IterableBackend(source),
        requirements=[sv.stream_check(stops)],
        chunking="word",
        chunk_operators=[ops.take_until(stop)],
    )
    await pipeline.run("go")
    assert log == ["closed"]


async def test_what_an_observer_raised_is_not_lost_where_closing_the_source_raises_too(reported):
    async def source(_):
        try:
            yield 5
        finally:
            raise OSError("closing")

    with pytest.raises(DeltaTypeError):
        await sv.Pipeline(sv.IterableBackend(source)).run("go")
    assert [str(report["exception"]) for report in reported] == ["closing"]


async def test_a_source_that_cancels_its_own_task_is_an_error_not_a_hang():
    async def source(_):
        yield "One. "
        asyncio.current_task().cancel()
        await asyncio.sleep(0)

    with pytest.raises(StreamBrokenError, match="cancelled from inside"):
        await sv.Pipeline(sv.IterableBackend(source)).run("go")
