"""Tests of `streamval.aio.inbox`."""

import asyncio

import pytest

from streamval.aio.gate import Gate
from streamval.aio.inbox import Inbox


async def test_what_is_put_in_comes_out_in_order_and_iteration_ends_with_the_last():
    inbox = Inbox(Gate())
    reader = asyncio.create_task(_all_of(inbox))
    for n in range(3):
        inbox.put(n)
        await asyncio.sleep(0)
    inbox.close()
    assert await reader == [0, 1, 2]


async def test_a_full_inbox_pauses_the_gate_and_the_first_item_taken_resumes_it():
    gate = Gate()
    inbox = Inbox(gate, 2)
    inbox.put(1)
    assert not gate.paused
    inbox.put(2)
    inbox.put(3)  # a source that has begun to push goes on
    assert gate.paused
    assert [await anext(inbox), await anext(inbox)] == [1, 2]
    assert not gate.paused


async def test_one_that_drops_keeps_the_newest_and_pauses_nothing():
    gate = Gate()
    inbox = Inbox(gate, 2, drop=True)
    for n in range(5):
        inbox.put(n)
    inbox.close()
    assert not gate.paused
    assert await _all_of(inbox) == [3, 4]


@pytest.mark.parametrize("way_out", ["clear", "unbound", "resume"])
async def test_each_way_out_opens_the_gate_once(way_out):
    gate = Gate()
    inbox = Inbox(gate, 1)
    inbox.put(1)
    assert gate.paused
    getattr(inbox, way_out)()
    assert not gate.paused
    inbox.resume()
    assert not gate.paused


async def _all_of(inbox):
    return [item async for item in inbox]
