"""Tests of `streamval.operators.fan_out`."""

import asyncio

import pytest
import reactivex
from reactivex import Subject
from reactivex import operators as ops

import streamval as sv
from streamval import Chunk, bridge
from streamval.errors import UsageError, ValidatorError, ValidatorTimeoutError
from streamval.operators import cancel_on_fail, chunk, fan_out, merge_tri_state, release
from streamval.testing import run_virtually
from tests.support.sources import Judge, PlainJudge, fails_on

WORDS = [Chunk(word, n, n * 4, n * 4 + 3, " ") for n, word in enumerate(["one", "two", "six"])]


async def verdicts(operator, chunks=WORDS):
    found = bridge.iterate(reactivex.from_iterable(chunks).pipe(operator))
    return [(verdict.lane, verdict.chunk.text, verdict.result.success) async for verdict in found]


async def test_every_chunk_to_every_requirement():
    assert sorted(await verdicts(fan_out([Judge("pass"), Judge("unknown")]))) == sorted(
        (lane, word, state)
        for word in ("one", "two", "six")
        for lane, state in ((0, "pass"), (1, "unknown"))
    )


async def test_each_subscription_has_lanes_of_its_own():
    class Counter(sv.Requirement):
        seen = 0

        async def stream_validate(self, chunk, *, backend, ctx):
            self.seen += 1
            return sv.PartialValidationResult("fail" if self.seen > 3 else "pass")

    operator = fan_out([Counter("count")])
    for _ in range(2):
        assert [state for *_, state in await verdicts(operator)] == ["pass"] * 3


def test_max_concurrency_overlaps_and_the_checks_stay_in_order():
    async def judge(chunk):
        await asyncio.sleep({"one": 3, "two": 2, "six": 1}[chunk])
        return "pass"

    async def main(concurrency):
        order = []
        observable = reactivex.from_iterable(WORDS).pipe(
            fan_out([Judge(judge, max_concurrency=concurrency)])
        )
        async for verdict in bridge.iterate(observable):
            order.append(verdict.chunk.text)
        merged = bridge.iterate(observable.pipe(merge_tri_state(), release()))
        return order, [found.text async for found in merged]

    (order, released), seconds = run_virtually(main(3))
    assert (order, released, seconds) == (["six", "two", "one"], ["one", "two", "six"], 6)
    (order, released), seconds = run_virtually(main(1))
    assert (order, released, seconds) == (["one", "two", "six"], ["one", "two", "six"], 12)


@pytest.mark.parametrize(("on_error", "state"), [("fail", "fail"), ("pass", "pass")])
@pytest.mark.parametrize("wait", [False, True])
async def test_what_a_validator_that_raises_means(on_error, state, wait):
    async def raises(_):
        if wait:
            await asyncio.sleep(0)
        raise OSError("no disk")

    found = bridge.iterate(reactivex.of(WORDS[0]).pipe(fan_out([Judge(raises, on_error=on_error)])))
    (verdict,) = [verdict async for verdict in found]
    assert verdict.result.success == state
    assert "OSError: no disk" in verdict.result.reason


@pytest.mark.parametrize("wait", [False, True])
async def test_by_default_it_ends_the_stream_unchanged(wait):
    boom = OSError("no disk")

    async def raises(_):
        if wait:
            await asyncio.sleep(0)
        raise boom

    with pytest.raises(OSError, match="no disk") as raised:
        await verdicts(fan_out([Judge(raises)]))
    assert raised.value is boom


def test_a_timeout_is_an_error_that_says_what_to_do():
    async def hangs(_):
        await asyncio.Event().wait()

    with pytest.raises(ValidatorTimeoutError, match="within 2 seconds; raise its timeout"):
        run_virtually(verdicts(fan_out([Judge(hangs, "slow judge", timeout=2)])))
    result, seconds = run_virtually(
        verdicts(fan_out([Judge(hangs, timeout=2, on_error="fail")]), WORDS[:1])
    )
    assert (result[0][2], seconds) == ("fail", 2)


async def test_a_timeout_of_the_validators_own_is_its_own():
    def own(_):
        raise TimeoutError("my own")

    with pytest.raises(TimeoutError, match="my own"):
        await verdicts(fan_out([Judge(own, timeout=50)]))


@pytest.mark.parametrize("answer", [True, None, sv.ValidationResult(True)])
async def test_an_answer_that_is_no_verdict_is_named(answer):
    with pytest.raises(ValidatorError, match="return a PartialValidationResult"):
        await verdicts(fan_out([Judge(lambda _: answer)]))


async def test_a_validator_cancelled_from_inside_is_an_error_not_a_hang():
    async def cancelled(_):
        await asyncio.sleep(0)
        raise asyncio.CancelledError

    with pytest.raises(ValidatorError, match="cancelled from inside"):
        await verdicts(fan_out([Judge(cancelled)]))


def test_a_validator_that_ignores_its_cancellation_keeps_nobody_waiting():
    async def stubborn(_):
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            return "pass"

    async def main():
        found = await verdicts(fan_out([Judge(stubborn), Judge("fail")]))
        return found, asyncio.get_running_loop().time()

    (found, ended), _ = run_virtually(main())
    assert [state for *_, state in found] == ["fail"]
    assert ended < 1


async def test_lanes_that_need_not_wait_share_a_task_and_one_that_waits_keeps_its_own():
    tasks = []

    def at_once(text):
        tasks.append(asyncio.current_task())
        return "pass"

    async def later(text):
        tasks.append(asyncio.current_task())
        for _ in range(5):
            await asyncio.sleep(0)
        tasks.append(asyncio.current_task())
        return "pass"

    async def source():
        yield WORDS[0]

    lanes = [Judge(at_once), Judge(later), Judge(at_once), Judge(at_once)]
    observable = bridge.from_async_iterable(source).pipe(fan_out(lanes))
    assert len([v async for v in bridge.iterate(observable)]) == 4
    first, waits, *others, went_on = tasks
    assert first is waits is went_on
    assert len(set(others)) == 1
    assert waits not in others


async def test_once_a_validator_has_disposed_of_it_all_nobody_else_is_asked():
    def disposes(_):
        subscription.dispose()
        return "pass"

    async def source():
        yield WORDS[0]

    other, seen = Judge(), []
    observable = bridge.from_async_iterable(source).pipe(fan_out([Judge(disposes), other]))
    subscription = observable.subscribe(seen.append)
    for _ in range(5):
        await asyncio.sleep(0)
    assert (other.asked, seen) == ([], [])


async def test_without_a_subscription_of_ours_the_last_verdict_ends_the_workers_too():
    async def later(_):
        await asyncio.sleep(0)
        return "pass"

    async def source():
        yield WORDS[0]

    seen = []
    bridge.from_async_iterable(source).pipe(fan_out([Judge(later)])).subscribe(seen.append)
    for _ in range(9):
        await asyncio.sleep(0)
    assert len(seen) == 1  # and no task is left, as after every test


@pytest.mark.parametrize("make", [Judge, PlainJudge])
async def test_a_validator_may_push_into_what_it_is_fed_from(make):
    chunks, seen = Subject(), []

    def pushes(text):
        if text == "two":
            chunks.on_next(WORDS[2])
        return "pass"

    async with bridge.Subscription(chunks.pipe(fan_out([make(pushes)])), seen.append) as judged:
        await asyncio.sleep(0)
        for word in WORDS[:2]:
            chunks.on_next(word)
        for _ in range(9):
            await asyncio.sleep(0)
        chunks.on_completed()
        await judged.completed()
    assert [verdict.chunk.text for verdict in seen] == ["one", "two", "six"]


def test_chunks_that_share_an_index_are_told_apart():
    async def main():
        same = [Chunk(text, 0, 0, 3) for text in ("one", "two", "six")]

        async def judge(text):
            if text == "one":
                await asyncio.sleep(1)
            return "fail" if text == "six" else "pass"

        operator = cancel_on_fail(fan_out([Judge(judge, max_concurrency=3)]))
        return await verdicts(operator, same)

    found, _ = run_virtually(main())
    assert [(text, state) for _, text, state in found] == [
        ("two", "pass"),
        ("six", "fail"),
        ("one", "pass"),
    ]


@pytest.mark.parametrize("waits", [True, False])
async def test_what_is_subscribed_to_for_a_verdict_is_closed_with_the_subscription(waits):
    chunks, closed = Subject(), []

    async def judge(_):
        if waits:
            await asyncio.sleep(0)
        return "pass"

    async def goes_on():
        try:
            yield 1
            await asyncio.sleep(100)
        finally:
            closed.append(True)

    inner = fan_out([Judge(judge)]), ops.flat_map(lambda _: bridge.from_async_iterable(goes_on))
    async with bridge.Subscription(chunks.pipe(*inner), lambda _: None):
        await asyncio.sleep(0)
        chunks.on_next(WORDS[0])
        for _ in range(5):
            await asyncio.sleep(0)
        assert not closed
    assert closed


async def asked_of(chunking, *deltas, outer="sentence", verdict="pass"):
    judge = Judge(verdict, chunking=chunking)
    checks = reactivex.of(*deltas).pipe(
        chunk(outer), fan_out([judge], chunking=outer), merge_tri_state()
    )
    found = [(c.chunk.text, c.success) async for c in bridge.iterate(checks)]
    return judge.asked, found


async def test_a_finer_chunking_ends_with_each_chunk():
    asked, found = await asked_of("word", "One two. Three four.")
    assert asked == ["One", "two.", "Three", "four."]
    assert found == [("One two.", "pass"), ("Three four.", "pass")]


async def test_a_finer_chunking_stops_at_the_failing_piece():
    asked, found = await asked_of("word", "One two. Three.", verdict=fails_on("One"))
    assert asked == ["One"]
    assert found == [("One two.", "fail")]


async def test_a_coarser_chunking_is_unknown_until_its_piece_is_whole():
    asked, found = await asked_of("paragraph", "One. Two.\n\nThree. Four.")
    assert asked == ["One. Two.", "Three. Four."]
    # The last one is the tail: what the lane still held back at the end.
    assert found == [
        *(("One.", "unknown"), ("Two.", "unknown"), ("Three.", "pass"), ("Four.", "unknown")),
        ("", "pass"),
    ]


async def test_a_hold_is_covered_only_up_to_what_the_pass_was_about():
    judge = Judge("pass", chunking="paragraph", hold=True)
    seen = []
    checks = reactivex.of("One. Two.\n\nThree. Four.").pipe(
        chunk("sentence"), fan_out([judge], chunking="sentence"), merge_tri_state()
    )
    observable = checks.pipe(release())
    async for released in bridge.iterate(observable):
        seen.append(released.text)
    assert seen == ["One.", "Two.", "Three.", "Four."]


@pytest.mark.parametrize("wrong", [[7], "one", [Judge]])
def test_what_is_no_requirement_is_refused_at_once(wrong):
    with pytest.raises(UsageError):
        fan_out(wrong)


def test_a_limit_of_nothing_is_refused():
    with pytest.raises(UsageError, match="max_pending_chunks"):
        fan_out([], max_pending_chunks=0)


async def test_at_the_tail_only_the_lane_that_held_something_back_is_asked():
    plain, coarse = Judge("pass"), Judge("pass", chunking="paragraph")
    checks = reactivex.of("One. Two.").pipe(
        chunk("sentence"), fan_out([plain, coarse], chunking="sentence"), merge_tri_state()
    )
    found = [c async for c in bridge.iterate(checks)]
    assert plain.asked == ["One.", "Two."]
    assert coarse.asked == ["One. Two."]
    assert [result.success for result in found[-1].results] == ["unknown", "pass"]
