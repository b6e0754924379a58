"""What an adversarial reader broke once: each a script that went wrong, and must not again."""

import asyncio

import pytest
import reactivex
from reactivex import Subject
from reactivex import operators as ops

import streamval as sv
from streamval import bridge
from streamval.errors import (
    RunError,
    StallError,
)
from streamval.events import EventAdapter
from streamval.operators import chunk, fan_out, merge_tri_state, release
from streamval.scope import side_by_side
from tests.support.sources import Judge, Spoken, fails_on, types, watch
from tests.support.virtual_time import run_virtually

# Judgements that wait for something shared, or for children


async def test_two_validators_may_wait_for_the_same_task():
    async def load():
        await asyncio.sleep(0.01)

    shared = asyncio.create_task(load())

    async def judge(_):
        await shared
        return "pass"

    result = await sv.Pipeline(
        sv.ScriptedBackend("One. Two."), requirements=[Judge(judge), Judge(judge)]
    ).run("go")
    assert result.success
    await shared


async def test_a_judgement_cut_off_cancels_what_it_waits_for():
    ended = []

    async def child():
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def judge(_):
        await asyncio.gather(child(), child())

    await sv.Pipeline(
        sv.ScriptedBackend("One. Two."), requirements=[Judge(judge), Judge("fail")]
    ).run("go")
    for _ in range(5):
        await asyncio.sleep(0)
    assert ended == ["cancelled"] * 2


async def test_a_validator_may_return_any_awaitable_and_raise_before_it_does():
    class Plain(sv.Requirement):
        def stream_validate(self, chunk, *, backend, ctx):
            if chunk == "Bad.":
                raise OSError("at once")
            return asyncio.ensure_future(later())

        async def validate(self, backend, ctx, **_):
            return sv.ValidationResult(True)

    async def later():
        await asyncio.sleep(0)
        return sv.PartialValidationResult("pass")

    pipeline = sv.Pipeline(
        sv.ScriptedBackend("One. Two. Bad."), requirements=[Plain("plain", on_error="fail")]
    )
    assert (await pipeline.run("go")).text == "One. Two."


async def test_on_error_covers_a_cancellation_from_inside():
    async def cancelled(_):
        raise asyncio.CancelledError

    judge = Judge(cancelled, on_error="pass")
    assert (await sv.Pipeline(Spoken("One."), requirements=[judge]).run("go")).success


# Stalls


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


# Observables inside judges, and judges that reach into other runs


async def test_a_judge_may_read_an_observable_of_its_own():
    class Asks(Judge):
        async def stream_validate(self, chunk, *, backend, ctx):
            await sv.ScriptedBackend("yes yes", token_size=1).observe("q").pipe(ops.to_list())
            return sv.PartialValidationResult("pass")

    pipeline = sv.Pipeline(
        sv.ScriptedBackend("One. Two. Three.", token_size=3),
        requirements=[Asks()],
        max_pending_chunks=1,
        stall_timeout=5,
    )
    async with asyncio.timeout(5):
        assert (await pipeline.run("go")).success


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


async def test_one_run_may_stop_another():
    stop = Subject()

    async def slow(_):
        await asyncio.sleep(0)
        return "pass"

    stopped = asyncio.ensure_future(
        sv.Pipeline(
            Spoken(*[f"Sentence {n}. " for n in range(50)], 1000),
            requirements=[Judge("pass")],
            delta_operators=[ops.take_until(stop)],
        ).run("go")
    )
    await asyncio.sleep(0.01)

    def press(_):
        stop.on_next(None)
        return "pass"

    await sv.Pipeline(Spoken("Stop."), requirements=[Judge(press)]).run("go")
    async with asyncio.timeout(5):
        assert (await stopped).success


# Subscribers


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
    async with asyncio.timeout(10):
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
    async with asyncio.timeout(10):
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


async def test_cancelling_at_the_very_end_or_the_very_beginning():
    run = sv.Pipeline(Spoken("One.")).start("go")
    run.subscribe(lambda event: run.cancel() if event.type == "completed" else None)
    assert (await run).success

    run = sv.Pipeline(backend := Spoken("One.")).start("go")
    seen = []
    run.subscribe(seen.append)
    task = asyncio.ensure_future(watch(run))
    await asyncio.sleep(0)
    await run.cancel()
    await task
    assert types(seen) == ["started", "completed"]
    assert backend.opened == 0


async def test_cancelled_before_it_is_driven_a_run_generates_nothing():
    backend = Spoken("One.")
    run = sv.Pipeline(backend).start("go")
    run.cancel()
    result = await run
    assert (result.success, backend.opened) == (False, 0)


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
    async with asyncio.timeout(5):
        await run
    assert isinstance(reported[0]["exception"], RunError)


# Repair


async def test_a_failed_tail_begins_again_and_is_no_success_by_silence():
    good = sv.stream_check(lambda p: ("bad" not in p, "has bad"), chunking="paragraph")
    backend = sv.ScriptedBackend(["Fine.\n\nThis is good. This is bad.", " "], supports_prefix=True)
    events = await watch(sv.Pipeline(backend, requirements=[good], retry=sv.Repair()).start("go"))
    retry = next(event for event in events if event.type == "retry")
    assert (retry.mode, retry.keep_chunks) == ("restart", 0)
    assert "bad" not in events[-1].full_text


async def test_an_empty_continuation_still_judges_what_a_lane_held_back():
    asked = []
    coarse = Judge(lambda p: asked.append(p) or "pass", chunking="paragraph")
    backend = Spoken(["One. ", "Two. ", "Bad. ", "x"], [" "], supports_prefix=True)
    result = await sv.Pipeline(
        backend, requirements=[coarse, Judge(fails_on("Bad."))], retry=sv.Repair()
    ).run("go")
    assert asked == ["One. Two."]
    assert result.text == "One. Two."


async def test_continue_with_overlapping_judgements_never_sees_rejected_text():
    seen = []

    async def overlapping(piece):
        seen.append(piece)
        await asyncio.sleep(0.002)
        return "pass"

    async def strict(text):
        await asyncio.sleep(0.01 if text == "Bad." else 0)
        return "fail" if text == "Bad." else "pass"

    backend = sv.ScriptedBackend(
        ["One.\nTwo.\nThree.\nBad.\nFive.\nSix.\nSeven.\n", "\nNew.\nEnd.\n"], supports_prefix=True
    )
    await sv.Pipeline(
        backend,
        requirements=[Judge(overlapping, chunking="line", max_concurrency=4), Judge(strict)],
        chunking="line",
        retry=sv.Repair(),
    ).run("go")
    assert seen[-2:] == ["New.", "End."]
    assert seen.count("Six.") <= 1


async def test_a_chunker_with_a_list_of_its_own_survives_continue():
    class Clauses:
        def __init__(self):
            self.buffer, self.index, self.at = [], 0, 0

        def feed(self, delta):
            found = []
            for char in delta:
                self.buffer.append(char)
                if char == ";":
                    found += self.flush()
            return found

        def flush(self):
            text = "".join(self.buffer)
            self.buffer.clear()
            if not text.strip():
                return []
            self.index += 1
            return [sv.Chunk(text.strip(), self.index - 1, 0, len(text), "")]

    judge = Judge("pass", chunking=Clauses)
    backend = Spoken(["One is fine. ", "Bad. ", "x "], [" Two is good; "], supports_prefix=True)
    await sv.Pipeline(
        backend, requirements=[judge, Judge(fails_on("Bad."))], retry=sv.Repair()
    ).run("go")
    assert judge.asked[-1] == "One is fine. Two is good;"


# Operators of the user's own


async def test_an_operator_that_has_enough_makes_no_success():
    never = sv.Requirement("never", lambda ctx: False)
    result = await sv.Pipeline(
        sv.ScriptedBackend("One. Two."), requirements=[never], chunk_operators=[ops.take(1)]
    ).run("go")
    assert (result.success, result.text) == (False, "One.")


async def test_chunks_dropped_before_the_fan_out_leave_no_gap():
    observable = reactivex.of("One\nTwo\nThree\n").pipe(
        chunk("line"),
        ops.filter(lambda found: found.index != 1),
        fan_out([Judge("pass")]),
        merge_tri_state(),
        release(),
    )
    assert [found.text async for found in bridge.iterate(observable)] == ["One", "Three"]


@pytest.mark.parametrize("place", ["delta_operators", "chunk_operators"])
async def test_timed_operators_stay_on_the_loop(place):
    pipeline = sv.Pipeline(sv.ScriptedBackend("One. Two."), **{place: [ops.delay(0.01)]})
    async with asyncio.timeout(5):
        assert (await pipeline.run("go")).text == "One. Two."


@pytest.mark.parametrize("slow", [0, 0.02])
async def test_what_a_hold_lets_through_does_not_depend_on_timing(slow):
    async def holding(text):
        if text == "Two.":
            await asyncio.sleep(0.005)
            return "unknown"
        return "pass"

    async def strict(text):
        if text == "Three.":
            await asyncio.sleep(slow)
            return "fail"
        return "pass"

    result = await sv.Pipeline(
        sv.ScriptedBackend("One. Two. Three."),
        requirements=[Judge(holding, hold=True, max_concurrency=3), Judge(strict)],
    ).run("go")
    assert result.text == "One."


# Odds and ends


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_an_empty_output_is_no_index_error(text):
    calm = sv.stream_check(lambda sentence: sentence[-1] != "!", "stay calm")
    assert (
        await sv.Pipeline(sv.ScriptedBackend(text or " "), requirements=[calm]).run("x")
    ).success


@pytest.mark.parametrize(
    "result",
    [
        sv.PartialValidationResult("pass", score=float("inf")),
        sv.PartialValidationResult("fail", reason=ValueError("an exception")),
    ],
)
def test_odd_verdicts_survive_json(result):
    event = sv.QuickCheckEvent(
        run_id="r", attempt=1, chunk_index=0, passed=True, verdict="pass", results=(result,)
    )
    assert EventAdapter.validate_json(EventAdapter.dump_json(event)) == event


def test_side_by_side_does_not_wait_for_what_ignores_its_cancellation():
    async def stubborn():
        while True:
            try:
                await asyncio.sleep(1000)
                return
            except asyncio.CancelledError:
                pass

    async def raises():
        await asyncio.sleep(1)
        raise ValueError("one")

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        with pytest.raises(ValueError, match="one"):
            await side_by_side(stubborn(), raises())
        at = asyncio.get_running_loop().time()
        await asyncio.sleep(2000)
        return at

    assert run_virtually(main())[0] < 10
