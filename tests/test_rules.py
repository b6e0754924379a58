"""The rules of a run, one by one."""

import asyncio
import threading
import tracemalloc
from copy import copy

import pytest
from reactivex import operators as ops

import streamval as sv
from streamval.errors import RunError, StallError
from streamval.testing import run_virtually
from tests.support.sources import Judge, PlainJudge, Spoken, fails_on, types, watch

TWO = ["One. ", "Two. "]


# Rule 1: each lane is a copy, made for each attempt before the backend is called


async def test_rule_1_lanes_are_copies_and_the_original_is_never_touched():
    class Counter(sv.Requirement):
        seen = 0

        async def stream_validate(self, chunk, *, backend, ctx):
            self.seen += 1
            return sv.PartialValidationResult("fail" if self.seen == 2 else "pass")

    counter = Counter("count")
    backend = Spoken(*TWO)
    result = await sv.Pipeline(
        backend, requirements=[counter], retry=sv.Repair(loop_budget=3, mode="restart")
    ).run("go")
    assert counter.seen == 0
    # Fresh state each time: each attempt fails on its own second chunk.
    assert [attempt.failures[0].chunk_index for attempt in result.attempts] == [1, 1, 1]


async def test_rule_1_a_copy_that_raises_surfaces_before_any_generation():
    class Uncopyable(Judge):
        def __copy__(self):
            raise LookupError("no copies")

    backend = Spoken(*TWO)
    with pytest.raises(LookupError, match="no copies"):
        await sv.Pipeline(backend, requirements=[Uncopyable()]).run("go")
    assert backend.opened == 0


# Rule 2: one chunk a call, the delta, in order within its lane


async def test_rule_2_one_chunk_a_call_in_order():
    judge = Judge()
    await sv.Pipeline(Spoken("One. Two. Thr", "ee. Four."), requirements=[judge]).run("go")
    assert judge.asked == ["One.", "Two.", "Three.", "Four."]


# Rule 3: lanes run beside each other


def test_rule_3_a_slow_lane_delays_the_release_but_no_other_lane():
    async def main():
        loop = asyncio.get_running_loop()
        quick_at, released_at = [], []

        async def slow(_):
            await asyncio.sleep(1)
            return "pass"

        def quick(_):
            quick_at.append(loop.time())
            return "pass"

        backend = Spoken("One. ", "Two. ", "Three. ")
        run = sv.Pipeline(backend, requirements=[Judge(slow), Judge(quick)]).start("go")
        run.subscribe(lambda e: released_at.append(loop.time()) if e.type == "chunk" else None)
        await run
        return quick_at, released_at

    (quick_at, released_at), _ = run_virtually(main())
    assert quick_at == [0, 0, 0]
    assert released_at == [1, 2, 3]


# Rule 4: the first fail closes the backend at once


def test_rule_4_the_first_fail_waits_for_no_slower_lane():
    async def main():
        loop = asyncio.get_running_loop()
        closed_at = []

        async def closing():
            closed_at.append(loop.time())

        async def slow(_):
            await asyncio.sleep(100)

        backend = Spoken("One. ", "Two. ", 1, "Three. ", 50, "Four. ", closing=closing)
        slow_judge = Judge(slow)
        result = await sv.Pipeline(backend, requirements=[slow_judge, Judge(fails_on("One."))]).run(
            "go"
        )
        return closed_at, result, backend

    (closed_at, result, backend), seconds = run_virtually(main())
    assert closed_at == [0]
    assert seconds == 0
    assert backend.closed == backend.opened == 1
    assert not result.success


async def test_rule_4_a_verdict_without_waiting_stops_the_source_at_that_very_delta():
    backend = Spoken(*(f"Sentence {n}. " for n in range(50)))
    await sv.Pipeline(backend, requirements=[Judge(fails_on("Sentence 3."))]).run("go")
    assert backend.said == 5  # the sentence, and the word after it that says it has ended


async def test_rule_4_peers_stop_judging_that_chunk_and_later_ones():
    after = Judge()
    await sv.Pipeline(
        Spoken("One. Two. Three. Four."), requirements=[Judge(fails_on("Two.")), after]
    ).run("go")
    assert after.asked == ["One."]


# Rule 5: what is delivered does not depend on timing


@pytest.mark.parametrize("delays", [(0, 0), (5, 0), (0, 5), (3, 1), (1, 3)])
def test_rule_5_exactly_the_chunks_before_the_lowest_failing_one(delays):
    def lane(text, delay):
        async def judge(chunk):
            await asyncio.sleep(delay)
            return fails_on(text)(chunk)

        return Judge(judge)

    async def main():
        pipeline = sv.Pipeline(
            Spoken("One. ", "Two. ", "Three. ", "Four. ", "Five."),
            requirements=[lane("Two.", delays[0]), lane("Four.", delays[1])],
        )
        return await pipeline.run("go")

    result, _ = run_virtually(main())
    assert result.text == "One."
    assert result.failures[0].chunk_index == 1


# Rule 6: the natural end


async def test_rule_6_the_trailing_fragment_then_the_whole_output():
    judge = Judge()
    events = await watch(sv.Pipeline(Spoken("One. Tw"), requirements=[judge]).start("go"))
    assert judge.asked == ["One.", "Tw"]
    assert types(events) == [
        *("started", "quick_check", "chunk", "quick_check", "chunk"),
        *("streaming_done", "full_validation", "completed"),
    ]
    assert events[5].full_text == "One. Tw"


async def test_rule_6_a_streamed_pass_does_not_skip_the_final_validation():
    pipeline = sv.Pipeline(Spoken("One."), requirements=[Judge("pass", whole=False)])
    result = await pipeline.run("go")
    assert not result.success
    assert result.failures[0].chunk_index is None


def test_rule_6_final_validations_run_beside_each_other():
    class Slow(sv.Requirement):
        async def validate(self, backend, ctx, **_):
            await asyncio.sleep(1)
            return sv.ValidationResult(True)

    _, seconds = run_virtually(
        sv.Pipeline(Spoken("One."), requirements=[Slow("a"), Slow("b"), Slow("c")]).run("go")
    )
    assert seconds == 1


# Rule 7: success


@pytest.mark.parametrize(
    ("judge", "success", "text"),
    [
        (Judge("pass"), True, "One. Two."),
        (Judge("unknown"), True, "One. Two."),
        (Judge(fails_on("Two.")), False, "One."),
        (Judge("pass", whole=False), False, "One. Two."),
    ],
)
async def test_rule_7_success_and_full_text(judge, success, text):
    events = await watch(sv.Pipeline(Spoken("One. Two."), requirements=[judge]).start("go"))
    assert (events[-1].success, events[-1].full_text) == (success, text)


async def test_rule_7_nothing_that_raised_is_a_success():
    run = sv.Pipeline(Spoken("One. ", "Two. ", OSError("gone"))).start("go")
    events = []
    run.subscribe(events.append)
    with pytest.raises(OSError, match="gone"):
        await run
    assert (events[-1].success, events[-1].full_text) == (False, "One.")


# Rule 8: memory and pressure


@pytest.mark.parametrize("limit", [1, 3, 64])
async def test_rule_8_the_backend_is_not_read_past_the_limit(limit):
    judged, most = 0, 0
    backend = Spoken(*["word "] * 500)

    async def slow(_):
        nonlocal judged, most
        most = max(most, backend.said - judged)
        await asyncio.sleep(0)
        judged += 1
        return "pass"

    pipeline = sv.Pipeline(
        backend, requirements=[Judge(slow)], chunking=None, max_pending_chunks=limit
    )
    result = await pipeline.run("go")
    assert result.success
    assert judged == 500
    assert most <= limit


async def test_rule_8_memory_stays_flat():
    class Endless(sv.Backend):
        async def stream(self, request):
            for _ in range(count):
                yield "word "

    class Slow(sv.Requirement):
        async def stream_validate(self, chunk, *, backend, ctx):
            await asyncio.sleep(0)
            return sv.PartialValidationResult("pass")

        async def validate(self, backend, ctx, **_):
            return sv.ValidationResult(True)

    peaks = []
    for count in (2_000, 20_000):
        tracemalloc.start()
        await sv.Pipeline(Endless(), requirements=[Slow("slow")], chunking="word").run("go")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    text = 18_000 * len("word ")  # the text itself, which a run has to keep: a few copies of it
    assert peaks[1] - peaks[0] < 8 * text


# Rule 9: a stall is an error


def test_rule_9_no_delta_for_too_long_ends_the_run_with_an_error():
    async def main():
        backend = Spoken("One. ", "Two. ", 1000, "Three.")
        run = sv.Pipeline(backend, stall_timeout=120).start("go")
        events = []
        run.subscribe(events.append)
        with pytest.raises(StallError, match="120 seconds"):
            await run
        return events, backend

    (events, backend), seconds = run_virtually(main())
    assert 120 <= seconds <= 127.5
    assert types(events)[-2:] == ["error", "completed"]
    assert backend.closed == 1


def test_rule_9_time_that_a_slow_lane_takes_is_no_stall():
    async def slow(_):
        await asyncio.sleep(500)
        return "pass"

    result, _ = run_virtually(
        sv.Pipeline(
            Spoken("One. ", "Two. ", "Three. "),
            requirements=[Judge(slow)],
            stall_timeout=10,
            max_pending_chunks=1,
        ).run("go")
    )
    assert result.success


# Rule 10: subscribers


async def test_rule_10_a_raising_subscriber_is_reported_and_the_rest_go_on(reported):
    seen = []

    def bad(event):
        raise KeyError(event.type)

    run = sv.Pipeline(Spoken("One.")).start("go")
    run.subscribe(bad)
    run.subscribe(seen.append)
    result = await run
    assert result.success
    assert types(seen)[-1] == "completed"
    first, count = reported  # the first in full, and how often in all
    assert str(first["exception"]) == repr(seen[0].type)
    assert f"raised {len(seen)} times in all" in count["message"]


async def test_rule_10_a_raising_async_subscriber_is_reported_and_goes_on_itself(reported):
    seen = []

    async def bad(event):
        seen.append(event)
        raise KeyError(event.type)

    run = sv.Pipeline(Spoken("One.")).start("go")
    run.subscribe(bad)
    await run
    assert types(seen) == ["started", "chunk", "streaming_done", "completed"]
    first, count = reported
    assert isinstance(first["exception"], KeyError)
    assert "raised 4 times in all" in count["message"]


async def test_rule_10_a_slow_async_subscriber_holds_the_source_back_and_loses_nothing():
    backend = Spoken(*["word "] * 1000)
    seen, ahead = [], []

    async def slow(event):
        ahead.append(backend.said - len(seen))
        await asyncio.sleep(0)
        seen.append(event)

    run = sv.Pipeline(backend, chunking=None).start("go")
    run.subscribe(slow)
    await run
    assert sum(event.type == "chunk" for event in seen) == 1000
    assert max(ahead) <= 70  # the mailbox holds 64


async def test_rule_10_overflow_drop_loses_the_oldest_and_holds_nothing_back():
    seen = []
    gate = asyncio.Event()

    async def stuck(event):
        await gate.wait()
        seen.append(event)

    run = sv.Pipeline(Spoken(*["word "] * 1000), chunking=None).start("go")
    run.subscribe(stuck, overflow="drop")
    run.subscribe(lambda event: gate.set() if event.type == "completed" else None)
    await run
    assert seen[0].type == "started"
    assert seen[-1].type == "completed"
    assert len(seen) == 65


# Rule 11: cancellation


async def test_rule_11_cancelling_the_driving_task_closes_the_backend_first():
    waiting = asyncio.Event()

    async def wait():
        waiting.set()
        await asyncio.sleep(1000)

    async def closing():
        await asyncio.sleep(0.01)

    backend = Spoken("One. ", wait, closing=closing)
    pipeline = sv.Pipeline(backend)

    async def drive():
        await pipeline.run("go")

    task = asyncio.create_task(drive())
    await waiting.wait()
    task.cancel("enough")
    with pytest.raises(asyncio.CancelledError, match="enough"):
        await task
    assert backend.closed == 1


async def test_rule_11_leaving_async_with_closes_the_backend_first():
    backend = Spoken(*["One. "] * 100, closing=lambda: asyncio.sleep(0.01))
    async with sv.Pipeline(backend).start("go") as run:
        async for event in run:
            if event.type == "chunk":
                break
    assert backend.closed == 1
    assert not (await run).success


async def test_rule_11_breaking_out_of_a_plain_loop_closes_the_backend_when_the_loop_runs():
    backend = Spoken(*["One. "] * 100)
    async for event in sv.Pipeline(backend).start("go"):
        if event.type == "chunk":
            break
    for _ in range(20):
        await asyncio.sleep(0)
    assert backend.closed == 1


async def test_rule_11_a_timeout_around_a_run_is_the_callers_timeout():
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await sv.Pipeline(Spoken("One. ", 1000)).run("go")


# Rule 12: exceptions


async def test_rule_12_error_then_completed_then_the_exception_itself():
    boom = ValueError("boom")
    run = sv.Pipeline(Spoken("One. ", "Two. ", boom)).start("go")
    events = []
    with pytest.raises(ValueError, match="boom") as raised:
        async for event in run:
            events.append(event)
    assert raised.value is boom
    assert types(events) == ["started", "chunk", "error", "completed"]
    assert (events[-2].exception_type, events[-2].detail) == ("ValueError", "boom")


async def test_rule_12_a_cancelled_run_completes_without_an_error_event():
    run = sv.Pipeline(Spoken("One. ", "Two. ", 1000)).start("go")
    events = []

    def stop(event):
        events.append(event)
        if event.type == "chunk":
            run.cancel()

    run.subscribe(stop)
    result = await run
    assert not result.success
    assert types(events) == ["started", "chunk", "completed"]


# Rule 13: state and copies


async def test_rule_13_the_shallow_copy_caveat_bites_and_is_documented():
    class Shares(sv.Requirement):
        def __init__(self):
            super().__init__("shares")
            self.seen = []

        async def stream_validate(self, chunk, *, backend, ctx):
            self.seen.append(chunk)
            return sv.PartialValidationResult("pass")

        async def validate(self, backend, ctx, **_):
            return sv.ValidationResult(True)

    shares = Shares()
    with pytest.warns(sv.errors.SharedStateWarning, match="copies of Shares share 'seen'"):
        await sv.Pipeline(Spoken("One."), requirements=[shares]).run("go")
    assert shares.seen == ["One."]
    assert copy(shares).seen is shares.seen
    assert "shallow" in sv.Requirement.__doc__


# And what is told early


async def test_a_run_is_iterated_once():
    run = sv.Pipeline(Spoken("One.")).start("go")
    await watch(run)
    with pytest.raises(RunError, match="once"):
        run.__aiter__()


# 14. What is no Exception ends a run like one; cancel() works from everywhere


class Panic(BaseException):
    """What is no Exception, as pytest.fail raises, or a library written in Rust."""


def panics(*_, **__):
    raise Panic("panic")


async def panics_later(*_):
    await asyncio.sleep(0)
    raise Panic("panic")


class PanicChunker:
    def feed(self, delta):
        raise Panic("panic")

    def flush(self):
        return []


@pytest.mark.parametrize(
    "where",
    [
        {"backend": Spoken("One. ", Panic("panic"))},
        {"chunking": PanicChunker},
        {"requirements": [PlainJudge(panics)]},
        {"requirements": [Judge(panics)]},
        {"requirements": [Judge(panics_later)]},
        {"requirements": [Judge(panics_later, on_error="pass", timeout=9)]},
        {"requirements": [Judge(panics_later, chunking="word", hold=True)]},
        {"requirements": [sv.stream_check(panics, blocking=True)]},
        {"requirements": [Judge(whole=Panic("panic"))]},
        {"requirements": [Judge(whole=Panic("panic")), Judge()]},
        {"chunk_operators": [ops.map(panics)]},
        {"delta_operators": [ops.map(panics)]},
    ],
    ids=lambda where: next(iter(where)),
)
@pytest.mark.parametrize("driven", ["awaited", "iterated"])
async def test_rule_14_what_is_no_exception_ends_the_run_like_one(where, driven):
    where = dict(where)
    given = where.pop("backend", None)
    backend = given or Spoken("One. ", "Two. ", "Three.")
    backend.opened = backend.closed = 0
    events = []
    run = sv.Pipeline(backend, **where).start("go")
    run.subscribe(events.append)
    with pytest.raises(Panic):
        if driven == "awaited":
            await run
        else:
            await watch(run)
    assert types(events)[-2:] == ["error", "completed"]
    assert types(events).count("completed") == 1
    assert not events[-1].success
    assert backend.opened == backend.closed


@pytest.mark.parametrize(
    "at", ["started", "quick_check", "chunk", "retry", "full_validation", "completed"]
)
async def test_rule_14_a_subscriber_that_panics_ends_the_run_and_the_others_get_every_event(at):
    backend = Spoken(["One. ", "Bad. ", "x"], ["One. ", "Two."])
    seen = []

    def sink(event):
        if event.type == at:
            raise Panic("panic")

    run = sv.Pipeline(
        backend, requirements=[Judge(fails_on("Bad."))], retry=sv.Repair(mode="restart")
    ).start("go")
    run.subscribe(sink)
    run.subscribe(seen.append)
    with pytest.raises(Panic):
        await run
    assert at in types(seen)
    assert types(seen)[-1] == "completed"
    assert types(seen).count("completed") == 1
    assert backend.opened == backend.closed


@pytest.mark.parametrize(
    "at", ["started", "quick_check", "chunk", "retry", "full_validation", "completed"]
)
@pytest.mark.parametrize("driven", ["awaited", "iterated"])
async def test_rule_14_cancel_from_any_subscriber_ends_the_run_and_raises_nothing(at, driven):
    backend = Spoken(["One. ", "Bad. ", "x"], ["One. ", "Two."])
    run = sv.Pipeline(
        backend, requirements=[Judge(fails_on("Bad."))], retry=sv.Repair(mode="restart")
    ).start("go")
    seen = []
    run.subscribe(lambda event: seen.append(event) or (run.cancel() if event.type == at else None))
    if driven == "awaited":
        await run
    else:
        await watch(run)
    assert types(seen)[-1] == "completed"
    assert seen[-1].success == (at == "completed")
    assert backend.opened == backend.closed


async def test_rule_14_cancel_from_another_thread_wakes_an_idle_loop():
    never = asyncio.Event()
    run = sv.Pipeline(Spoken("One. ", "Two. ", never.wait), stall_timeout=None).start("go")
    begun = threading.Event()
    run.subscribe(lambda event: begun.set() if event.type == "chunk" else None)

    def cancels():
        begun.wait(30)
        run.cancel()

    thread = threading.Thread(target=cancels)
    thread.start()
    result = await run
    thread.join()
    assert (result.success, result.text) == (False, "One.")
