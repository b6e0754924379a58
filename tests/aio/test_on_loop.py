"""Tests of `streamval.aio.on_loop`: time operators run on the loop, wherever an observable of ours comes from."""

import asyncio
import threading
import time

import pytest
import reactivex
from reactivex import operators as ops

import streamval as sv
from streamval import bridge
from streamval.aio.on_loop import OnLoop, loop_scheduler, on_loop
from streamval.operators import chunk, release, validate
from streamval.testing import run_virtually

TIMED = {
    "buffer_with_time": lambda: ops.buffer_with_time(0.1),
    "debounce": lambda: ops.debounce(0.1),
    "delay": lambda: ops.delay(0.1),
    "sample": lambda: ops.sample(0.1),
    "timeout": lambda: ops.timeout(100.0),
    "window_with_time": lambda: ops.window_with_time(0.1),
    "throttle_first": lambda: ops.throttle_first(0.1),
    "fluent": lambda: lambda source: source.delay(0.1),
    "shared": lambda: lambda source: source.pipe(ops.delay(0.1), ops.share(), ops.delay(0.1)),
    "published": lambda: lambda source: source.pipe(ops.delay(0.1), ops.publish(), ops.ref_count()),
}


class Slow(sv.Backend):
    """Says sentences, one in each quarter of a second."""

    model = "slow"

    async def stream(self, request):
        for word in ("One. ", "Two. ", "Three."):
            await asyncio.sleep(0.25)
            yield word


async def taken(observable):
    """What an observable gives, and on which threads."""
    seen, threads, ended = [], set(), asyncio.get_running_loop().create_future()

    def on_next(item):
        seen.append(item)
        threads.add(threading.current_thread())

    observable.subscribe(on_next, ended.set_exception, lambda: ended.set_result(None))
    await ended
    return seen, threads


@pytest.mark.parametrize("operator", TIMED.values(), ids=TIMED)
@pytest.mark.parametrize("place", ["observe", "events", "source"])
def test_time_operators_call_back_on_the_loop_in_its_time(operator, place):
    async def main():
        pipeline = sv.Pipeline(Slow())
        if place == "observe":
            return await taken(pipeline.observe("x").pipe(operator()))
        if place == "source":
            source = bridge.from_async_iterable(lambda: Slow().stream(None))
            return await taken(source.pipe(operator()))
        run = pipeline.start("x")
        taking = asyncio.ensure_future(taken(run.events.pipe(operator())))
        await asyncio.sleep(0)
        await run
        return await taking

    (seen, threads), _ = run_virtually(main())
    assert seen
    assert threads == {threading.main_thread()}


def test_what_is_iterated_ends_when_its_time_has_come():
    async def judged(text):
        await asyncio.sleep(0.01)
        return True

    async def main():
        deltas = bridge.from_async_iterable(lambda: Slow().stream(None))
        chunks = deltas.pipe(chunk("sentence"))
        late = chunks.pipe(ops.delay(0.5), validate([sv.stream_check(judged, "ok")]), release())
        return [piece.text async for piece in bridge.iterate(late)]

    texts, seconds = run_virtually(main())
    assert texts == ["One.", "Two.", "Three."]
    assert 1.2 < seconds < 1.4  # it hung until something else woke the loop


def test_users_operators_in_a_pipeline_are_on_the_loop():
    async def main():
        operators = [ops.delay(0.5)]
        pipeline = sv.Pipeline(Slow(), delta_operators=operators, chunk_operators=operators)
        return (await pipeline.run("x")).text

    assert run_virtually(main())[0] == "One. Two. Three."


async def test_items_of_another_thread_wake_the_loop():
    subject = reactivex.Subject()

    def push():
        for number in range(3):
            time.sleep(0.01)
            subject.on_next(number)
        subject.on_completed()

    pushing = threading.Thread(target=push)
    threads = set()
    pushing.start()
    async for number in bridge.iterate(subject):
        threads.add(threading.current_thread())
    pushing.join()
    assert number == 2
    assert threads == {threading.main_thread()}


async def test_errors_of_another_thread_arrive():
    subject = reactivex.Subject()
    pushing = threading.Timer(0.01, lambda: subject.on_error(KeyError("a")))
    pushing.start()
    with pytest.raises(KeyError):
        async for _ in bridge.iterate(subject):
            pass
    pushing.join()


def test_without_a_loop_a_plain_source_works_as_ever():
    seen = []
    on_loop(reactivex.of(1, 2)).pipe(ops.map(str)).subscribe(seen.append)
    assert seen == ["1", "2"]
    assert loop_scheduler() is None


def test_what_has_methods_of_its_own_keeps_them():
    made = on_loop(reactivex.of(1)).pipe(ops.map(str), ops.publish())
    assert hasattr(made, "connect")
    assert isinstance(on_loop(reactivex.of(1)).pipe(ops.map(str)), OnLoop)


def test_another_scheduler_may_be_given():
    from reactivex.testing import TestScheduler

    async def main():
        scheduler, seen = TestScheduler(), []
        on_loop(reactivex.of(1)).pipe(ops.delay(5.0)).subscribe(seen.append, scheduler=scheduler)
        assert seen == []
        scheduler.start()
        return seen

    assert asyncio.run(main()) == [1]
