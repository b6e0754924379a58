"""Tests of `streamval.validation.turns`."""

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
