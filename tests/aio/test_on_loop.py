"""Tests of `streamval.aio.on_loop`: time operators run on the loop, wherever an observable of ours comes from."""

import asyncio
import threading
import time

import pytest
import reactivex
from reactivex import operators as ops
from reactivex.scheduler import NewThreadScheduler

import streamval as sv
from streamval import bridge
from streamval.aio.on_loop import Direct, OnLoop, loop_scheduler, on_loop
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


async def test_what_starts_a_run_of_its_own_can_be_awaited():
    pipeline = sv.Pipeline(sv.ScriptedBackend("One."))
    assert (await pipeline.observe("x")).type == "completed"

    async def work():
        run = pipeline.start("q")
        run.events.subscribe(lambda event: None)
        return (await run).text

    assert await bridge.from_coroutine(work) == "One."


@pytest.mark.parametrize(
    "operators",
    [[ops.start_with("S")], [ops.merge()], [ops.retry(2)], [ops.catch(reactivex.of("never"))]],
    ids=["start_with", "merge", "retry", "catch"],
)
async def test_operators_subscribe_before_subscribe_returns_and_lose_nothing(operators):
    run, seen = sv.Pipeline(sv.ScriptedBackend("One. Two.")).start("x"), []
    run.events.pipe(*operators).subscribe(lambda e: seen.append(getattr(e, "type", e)))
    assert (await run).success
    assert [one for one in seen if one != "S"] == [
        "started",
        "chunk",
        "chunk",
        "streaming_done",
        "completed",
    ]


def in_thread(call):
    thread = threading.Thread(target=call)
    thread.start()
    return thread


async def test_a_timer_that_another_thread_sets_wakes_the_loop():
    """No other timer is there to wake it."""
    source = reactivex.Subject()
    items = bridge.iterate(source.pipe(ops.debounce(0.01), ops.delay(0.01)))
    first = asyncio.ensure_future(anext(items))
    await asyncio.sleep(0)
    in_thread(lambda: source.on_next("late")).join()
    assert await first == "late"
    await items.aclose()


async def test_calls_of_several_threads_keep_their_order():
    source, seen = reactivex.Subject(), []
    chain = source.pipe(chunk("word"), validate([]), release(), ops.map(lambda found: found.text))
    chain.subscribe(seen.append, seen.append, lambda: seen.append("|"))
    in_thread(lambda: [source.on_next("one "), source.on_next("two ")]).join()
    source.on_next("three ")
    source.on_completed()
    while "|" not in seen:
        await asyncio.sleep(0)
    assert seen == ["one", "two", "three", "|"]


async def test_after_a_subscription_is_left_nothing_comes_from_a_thread(reported):
    source, seen = reactivex.Subject(), []
    async with bridge.Subscription(source, seen.append):
        in_thread(lambda: [source.on_next(1), source.on_error(OSError("late"))]).join()
    for _ in range(3):
        await asyncio.sleep(0)
    assert (seen, reported) == ([], [])


async def test_what_raises_downstream_of_a_thread_ends_the_stream():
    source = reactivex.Subject()

    def bad(_):
        raise ValueError("downstream")

    chain = source.pipe(chunk("word"), validate([]), release(), ops.do_action(bad))
    found = asyncio.ensure_future(anext(bridge.iterate(chain)))
    await asyncio.sleep(0)
    in_thread(lambda: source.on_next("one two ")).join()
    with pytest.raises(ValueError, match="downstream"):
        await found


async def test_disposed_by_another_thread_the_source_is_closed():
    closed = asyncio.Event()

    async def endless():
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            closed.set()

    disposable = bridge.from_async_iterable(endless).subscribe(lambda _: None)
    await asyncio.sleep(0)
    in_thread(disposable.dispose).join()
    await closed.wait()  # nothing else wakes the loop


def test_awaited_time_operators_follow_the_clock_of_the_loop():
    async def main():
        spaced = Slow().observe("x").pipe(ops.throttle_first(0.3), ops.time_interval())
        return [item.interval.total_seconds() for item in await spaced.pipe(ops.to_list())]

    intervals, seconds = run_virtually(main())
    assert intervals == pytest.approx([0.25, 0.5], abs=0.01)
    assert seconds == pytest.approx(0.75)


def test_streams_that_are_added_stay_on_the_loop():
    async def main():
        both = Slow().observe("x") + Slow().observe("y")
        return await taken(both.pipe(ops.delay(1)))

    (seen, threads), _ = run_virtually(main())
    assert len(seen) == 6
    assert threads == {threading.main_thread()}


@pytest.mark.parametrize("made", [lambda a, b: reactivex.merge(a, b), lambda a, b: reactivex.defer(lambda _: a)])  # fmt: skip
def test_what_reactivex_makes_is_put_on_the_loop(made):
    async def main():
        both = bridge.on_loop(made(Slow().observe("x"), Slow().observe("y")))
        return await taken(both.pipe(ops.delay(1)))

    (seen, threads), _ = run_virtually(main())
    assert len(seen) in (3, 6)
    assert threads == {threading.main_thread()}


async def _in_one_delta():
    yield "One. Two. Three. Four. Five."


def _through(*, direct):
    """The same chain of our operators, behind a source that our operators join, or one that they observe."""
    source = bridge.from_async_iterable(_in_one_delta)
    if not direct:
        source = OnLoop(source._subscribe_core)
    calm = sv.stream_check(lambda text: "Four" not in text, "no four")
    chain = source.pipe(chunk(), validate([calm]))
    assert isinstance(chain, Direct) is direct
    return chain


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("direct", [True, False])
async def test_nothing_comes_once_a_chain_is_disposed_of_within_a_delta(direct, at):
    seen = []

    def on_next(check):
        seen.append(check.chunk.text)
        if len(seen) > at:
            subscription.dispose()

    subscription = bridge.Subscription(_through(direct=direct), on_next)
    async with subscription:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert seen == ["One.", "Two.", "Three."][: at + 1]


@pytest.mark.parametrize("direct", [True, False])
async def test_an_observer_that_raises_ends_the_chain_with_its_error(direct):
    seen = []

    def on_next(check):
        seen.append(check.chunk.text)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        async with bridge.Subscription(_through(direct=direct), on_next) as subscription:
            await subscription.completed()
    assert seen == ["One."]


@pytest.mark.parametrize("direct", [True, False])
async def test_a_chain_of_ours_gives_what_an_observed_one_gives(direct):
    checks = [
        (one.chunk.text, one.success) async for one in bridge.iterate(_through(direct=direct))
    ]
    assert checks == [("One.", "pass"), ("Two.", "pass"), ("Three.", "pass"), ("Four.", "fail")]


class SlowAt(sv.Requirement):
    """Takes its time over chunks that have a word."""

    def __init__(self, word, seconds):
        super().__init__("slow")
        self.word, self.seconds = word, seconds

    async def stream_validate(self, chunk, *, backend, ctx):
        if self.word in chunk:
            await asyncio.sleep(self.seconds)
        return sv.PartialValidationResult("pass")


@pytest.mark.parametrize("direct", [True, False])
def test_a_source_that_is_slow_to_close_after_a_failure_does_not_stall(direct):
    async def source():
        try:
            yield "One. "
            yield "Two. "
            yield "Three. "
            await asyncio.sleep(9)
        finally:
            await asyncio.sleep(4)

    async def main():
        read = bridge.from_async_iterable(source, stall_timeout=1)
        read = read if direct else OnLoop(read._subscribe_core)
        no_two = sv.stream_check(lambda text: "Two" not in text, "no two")
        chain = read.pipe(chunk(), validate([SlowAt("One", 6), no_two]))
        return [(check.chunk.text, check.success) async for check in bridge.iterate(chain)]

    checks, _ = run_virtually(main())
    assert checks == [("One.", "pass"), ("Two.", "fail")]


@pytest.mark.parametrize("direct", [True, False])
def test_what_observes_is_not_asked_behind_a_failure(direct):
    asked = []
    observing = sv.stream_check(lambda text: asked.append(text) or True, "observes")
    observing.enforce = False

    async def main():
        no_two = sv.stream_check(lambda text: "Two" not in text, "no two")
        read = bridge.from_async_iterable(_in_one_delta)
        read = read if direct else OnLoop(read._subscribe_core)
        chain = read.pipe(chunk(), validate([SlowAt("One", 1), no_two, observing]))
        return [check.success async for check in bridge.iterate(chain)]

    checks, _ = run_virtually(main())
    assert checks == ["pass", "fail"]
    assert asked == ["One.", "Two."]


@pytest.mark.parametrize("at", ["verdict", "check"])
async def test_an_observer_that_raises_at_the_failure_ends_the_chain_with_its_error(at):
    def raises(item):
        if getattr(item, "success", None) == "fail" or (
            at == "verdict" and item.result.success == "fail"
        ):
            raise ZeroDivisionError

    no_two = sv.stream_check(lambda text: "Two" not in text, "no two")
    on_verdict = raises if at == "verdict" else None
    chain = bridge.from_async_iterable(_in_one_delta).pipe(
        chunk(), validate([no_two], on_verdict=on_verdict)
    )
    take = raises if at == "check" else lambda check: None
    with pytest.raises(ZeroDivisionError):
        async with asyncio.timeout(10), bridge.Subscription(chain, take) as subscription:
            await subscription.completed()


def test_without_a_loop_the_whole_is_judged_before_the_end_whatever_the_scheduler():
    source, seen = reactivex.Subject(), []
    calm = sv.stream_check(lambda text: True, "calm")
    source.pipe(chunk(), validate([calm])).subscribe(
        lambda check: seen.append(threading.current_thread()), scheduler=NewThreadScheduler()
    )
    source.on_next("One. Two. ")
    source.on_completed()
    assert seen == [threading.current_thread()] * 3


async def test_what_a_coroutine_raises_as_it_is_cancelled_is_reported():
    began, reports, seen = asyncio.Event(), [], []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))

    async def fails_to_clean_up():
        began.set()
        try:
            await asyncio.sleep(9)
        finally:
            raise ZeroDivisionError

    async with bridge.Subscription(bridge.from_coroutine(fails_to_clean_up), seen.append):
        await began.wait()
    assert seen == []
    assert [type(report["exception"]) for report in reports] == [ZeroDivisionError]


async def test_a_final_check_that_outlives_its_cancellation_reports_nothing():
    began, let_go, seen = asyncio.Event(), asyncio.Event(), []

    async def stubborn():
        began.set()
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                let_go.set()
        return "late"

    async with bridge.Subscription(bridge.from_coroutine(stubborn), seen.append):
        await began.wait()
    assert seen == []


async def test_a_chain_is_disposed_of_on_its_loop_from_another_thread():
    closed_on = []

    async def endless():
        try:
            while True:
                yield "One. "
                await asyncio.sleep(0)
        finally:
            closed_on.append(threading.current_thread())

    chain = bridge.from_async_iterable(endless).pipe(chunk(), validate([]))
    subscription = chain.subscribe(lambda check: None)
    await asyncio.sleep(0)
    await asyncio.to_thread(subscription.dispose)
    while not closed_on:
        await asyncio.sleep(0)
    assert closed_on == [threading.current_thread()]
