"""Tests of `streamval.operators.validate`: it is the operators composed, with one observable in place of three."""

import asyncio
from functools import partial

import pytest
import reactivex
from hypothesis import given, settings
from hypothesis import strategies as st

import streamval as sv
from streamval import bridge
from streamval.errors import UsageError
from streamval.operators import cancel_on_fail, chunk, fan_out, merge_tri_state, release, validate
from streamval.testing import run_virtually
from streamval.validation import Check
from streamval.validation.release import ReleaseOrder
from tests.support.sources import Judge, PlainJudge, Spoken

STATES = st.sampled_from(["pass", "pass", "pass", "pass", "unknown", "fail"])


@st.composite
def scenarios(draw):
    """Words with pauses before them, and lanes that judge them in their own time."""
    words = [f"word{n}" for n in range(draw(st.integers(0, 7)))]
    lanes = [
        {
            "verdicts": dict(zip(words, draw(_each(words, STATES)), strict=True)),
            "seconds": dict(zip(words, draw(_each(words, st.integers(0, 3))), strict=True)),
            "plain": draw(st.booleans()),
            "whole": draw(st.sampled_from([True, True, True, False])),
            "hold": draw(st.booleans()),
            "max_concurrency": draw(st.integers(1, 3)),
        }
        for _ in range(draw(st.integers(0, 4)))
    ]
    return words, draw(_each(words, st.integers(0, 2))), lanes


def _each(words, values):
    return st.lists(values, min_size=len(words), max_size=len(words))


class Source(sv.Backend):
    """Says the words, after their pauses."""

    def __init__(self, words, pauses):
        self.said = list(zip(words, pauses, strict=True))
        self.read = self.closed = 0

    async def stream(self, request=None):
        try:
            for word, pause in self.said:
                await asyncio.sleep(pause)
                self.read += 1
                yield word + " "
        finally:
            self.closed += 1


def judge(lane):
    options = {name: lane[name] for name in ("whole", "hold", "max_concurrency")}
    if lane["plain"]:
        return PlainJudge(lane["verdicts"].get, **options)

    async def verdict(word):
        if lane["seconds"][word]:
            await asyncio.sleep(lane["seconds"][word])
        return lane["verdicts"][word]

    return Judge(verdict, **options)


def judged_by(operator, words, pauses, lanes):
    """What an operator makes of the words: checks, when they came, how much was read."""

    async def main():
        source, checks, times = Source(words, pauses), [], []
        loop = asyncio.get_running_loop()
        began = loop.time()

        def on_next(check):
            checks.append(check)
            times.append(loop.time() - began)

        observable = bridge.from_async_iterable(source.stream).pipe(
            chunk("word"), operator([judge(lane) for lane in lanes])
        )
        async with bridge.Subscription(observable, on_next) as subscription:
            await subscription.completed()
        return checks, times, source.read, source.closed

    return run_virtually(main())[0]


def composed(requirements):
    def operator(source):
        return source.pipe(cancel_on_fail(fan_out(requirements)), merge_tri_state())

    return operator


@settings(max_examples=300)
@given(scenarios())
def test_it_is_the_three_operators_composed(scenario):
    judges_chunks = partial(validate, final=False)
    assert judged_by(judges_chunks, *scenario) == judged_by(composed, *scenario)


@settings(max_examples=200)
@given(scenarios())
def test_a_pipeline_does_what_it_does_with_the_release_and_the_final_check(scenario):
    words, pauses, lanes = scenario
    checks, _, _, closed = judged_by(composed, *scenario)
    order = ReleaseOrder()
    expected = [found for check in checks for found in order.check(check)]
    success = all(check.success != "fail" for check in checks)
    if success:
        success = all(lane["whole"] for lane in lanes)
        expected += order.check(Check(None, "pass" if success else "fail"))

    async def main():
        backend, events = Source(words, pauses), []
        pipeline = sv.Pipeline(backend, requirements=[judge(n) for n in lanes], chunking="word")
        run = pipeline.start("go")
        run.subscribe(events.append)
        return await run, events, backend

    (result, events, backend), _ = run_virtually(main())
    assert [e.chunk() for e in events if isinstance(e, sv.ChunkEvent)] == expected
    # Which peers have answered on a failed chunk is a matter of one turn of the loop.
    assert [
        (e.chunk_index, e.verdict, e.passed and e.results)
        for e in events
        if isinstance(e, sv.QuickCheckEvent)
    ] == [
        (check.chunk.index, check.success, check.success != "fail" and check.results)
        for check in checks
        if lanes
    ]
    assert backend.closed == closed == 1
    assert result.success is success


async def test_released_by_hand_in_a_dozen_lines():
    backend = Spoken("All is well. ", "It rains. ", "Help! ", "More.")
    shouts = sv.stream_check(lambda text: not text.endswith("!"), "stay calm")
    chunks = backend.observe("go").pipe(chunk(), validate([shouts]), release())
    assert [found.text async for found in bridge.iterate(chunks)] == ["All is well.", "It rains."]
    assert backend.closed == 1


async def test_the_composed_way_by_hand():
    words = reactivex.of(
        *[sv.Chunk(word, n, 4 * n, 4 * n + 3, " ") for n, word in enumerate(["one", "two"])]
    )
    found = bridge.iterate(words.pipe(composed([Judge("pass"), "as yet unknown"]), release()))
    assert [item.text async for item in found] == ["one", "two"]


@pytest.mark.parametrize("operator", [fan_out, validate])
def test_what_cannot_work_is_refused_at_once(operator):
    with pytest.raises(UsageError, match="not a requirement"):
        operator([5])
    with pytest.raises(UsageError, match="max_pending_chunks"):
        operator([], max_pending_chunks=0)
