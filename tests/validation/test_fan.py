"""Tests of `streamval.validation.fan`."""

import asyncio
import random
import sys

import pytest
import reactivex
from reactivex import operators as ops

import streamval as sv
from streamval import bridge
from streamval.errors import ValidatorError
from streamval.operators import chunk, fan_out, merge_tri_state, release, validate
from streamval.testing import run_virtually
from tests.support.sources import Judge, Spoken


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

    async def fails(_):
        for _ in range(5):  # by then the children have begun
            await asyncio.sleep(0)
        return "fail"

    await sv.Pipeline(
        sv.ScriptedBackend("One. Two."), requirements=[Judge(judge), Judge(fails)]
    ).run("go")
    for _ in range(5):
        await asyncio.sleep(0)
    assert ended == ["cancelled"] * 2


async def test_chunks_dropped_before_the_fan_out_leave_no_gap():
    observable = reactivex.of("One\nTwo\nThree\n").pipe(
        chunk("line"),
        ops.filter(lambda found: found.index != 1),
        fan_out([Judge("pass")]),
        merge_tri_state(),
        release(),
    )
    assert [found.text async for found in bridge.iterate(observable)] == ["One", "Three"]


@pytest.mark.parametrize("waits", [True, False])
async def test_a_validator_that_cancels_its_own_task_is_an_error_not_a_hang(waits):
    async def cancels(text):
        if text == "Two.":
            asyncio.current_task().cancel()
            if waits:
                await asyncio.sleep(0)
        return "pass"

    pipeline = sv.Pipeline(
        Spoken("One. ", 0, "Two. ", 0, "Three. ", 0, "Four. "), requirements=[Judge(cancels)]
    )
    with pytest.raises(ValidatorError, match="cancelled the task that judges"):
        await pipeline.run("go")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="there are no eager tasks before 3.12")
async def test_with_eager_tasks_a_run_does_the_same():
    async def late(_):
        await asyncio.sleep(0)
        return "pass"

    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
    try:
        for deltas in (["One. ", "Two. "], ["One. ", 0.001, "Two. ", 0.001]):
            result = await sv.Pipeline(Spoken(*deltas), requirements=[Judge(), Judge(late)]).run(
                "go"
            )
            assert (result.success, result.text) == (True, "One. Two.")
    finally:
        asyncio.get_running_loop().set_task_factory(None)


def test_a_lane_with_a_queue_does_not_wait_for_its_peers():
    """Also where several chunks come in one turn of the loop."""

    async def main():
        loop = asyncio.get_running_loop()
        judged = {}

        async def quick(chunk):
            judged[chunk] = loop.time()
            return "pass"

        async def slow(_):
            await asyncio.sleep(10)
            return "pass"

        chunks = reactivex.of("One. Two. Three.").pipe(
            chunk(), validate([Judge(quick), Judge(slow)])
        )
        assert [check.success async for check in bridge.iterate(chunks)] == ["pass"] * 4
        return judged

    judged, _ = run_virtually(main())
    assert judged == dict.fromkeys(["One.", "Two.", "Three."], 0)


class Takes(sv.Requirement):
    """Takes so many turns of the loop over a chunk; counts how many it judges at once."""

    def __init__(self, turns, **options):
        super().__init__("takes turns", **options)
        self.turns = turns
        self.now = self.most = 0
        self.asked = []

    def __copy__(self):
        return self

    async def stream_validate(self, chunk, *, backend, ctx):
        self.asked.append(chunk)
        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(self.turns[len(chunk) % len(self.turns)]):
            await asyncio.sleep(0)
        self.now -= 1
        return sv.PartialValidationResult("pass")


async def test_lanes_that_overlap_in_any_way_judge_every_chunk_once_within_their_slots():
    for seed in range(400):
        dice = random.Random(seed)
        words = ["x" * n for n in range(1, dice.randrange(3, 9))]
        lanes = [
            Takes([dice.randrange(6) for _ in range(9)], max_concurrency=dice.randrange(1, 4))
            for _ in range(dice.randrange(1, 4))
        ]
        pipeline = sv.Pipeline(
            sv.ScriptedBackend([" ".join(words)]), requirements=lanes, chunking="word"
        )
        result = await asyncio.wait_for(pipeline.run("go"), 20)
        assert result.success, seed
        for lane in lanes:
            assert sorted(lane.asked) == words, seed
            assert lane.max_concurrency > 1 or lane.asked == words, seed
            assert lane.most <= lane.max_concurrency, seed
