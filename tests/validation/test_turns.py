"""Tests of `streamval.validation.turns`."""

import asyncio
import random

import streamval as sv
from streamval.types.chunks import Chunk
from streamval.validation.lane import Lane
from streamval.validation.options import FanOptions
from streamval.validation.turns import next_turns
from streamval.validation.verdicts import Row


class Judge(sv.Requirement):
    async def stream_validate(self, chunk, *, backend, ctx):
        return sv.PartialValidationResult("pass")


def a_lane(position, *rows):
    judge = Judge("a judge")
    lane = Lane(position, judge, FanOptions((judge,)))
    lane.slots = 0
    lane.queue.extend(rows)
    return lane


def rows(count):
    return [Row(Chunk("", n, 0, 0), [None], 1, n) for n in range(count)]


def test_the_earliest_chunk_comes_first_and_its_lanes_in_their_order():
    one, two, three = rows(3)
    lanes = [a_lane(0, two), a_lane(1, one, three), a_lane(2, one)]
    queued = list(lanes)

    turns = next_turns(queued)

    assert turns is not None
    assert turns.row is one
    assert turns.lanes == [lanes[2], lanes[1]]  # the next one last
    assert queued == [lanes[0]]
    assert [list(lane.queue) for lane in lanes] == [[two], [three], []]


def test_a_lane_whose_queue_was_emptied_gets_back_its_slot():
    done = a_lane(0)
    queued = [done]

    assert next_turns(queued) is None
    assert queued == []
    assert done.slots == 1


def test_a_lane_with_two_free_slots_takes_two_chunks_one_after_the_other():
    one, two = rows(2)
    lane = a_lane(0, one, two)
    queued = [lane, lane]

    first, second = next_turns(queued), next_turns(queued)

    assert (first.row, second.row) == (one, two)
    assert first.lanes == second.lanes == [lane]
    assert queued == []


def test_of_two_free_slots_and_one_chunk_a_slot_is_given_back():
    (one,) = rows(1)
    lane = a_lane(0, one)
    queued = [lane, lane]

    assert next_turns(queued).lanes == [lane]
    assert (lane.slots, queued) == (1, [])


class Takes(sv.Requirement):
    """Takes so many turns of the loop over a chunk; counts how many it judges at once."""

    judge_whole = False

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
