"""Tests of `streamval.aio.gate`."""

import asyncio

from streamval.aio.gate import Gate


async def test_readers_wait_until_the_last_pause_is_taken_back():
    gate, passed = Gate(), []
    gate.pause()
    gate.pause()

    async def reads():
        await gate.ready()
        passed.append("read")

    reader = asyncio.create_task(reads())
    for expected in ([], []):
        for _ in range(5):
            await asyncio.sleep(0)
        assert passed == expected
        assert gate.busy
        gate.resume()
    await reader
    assert passed == ["read"]
    assert not gate.busy
    assert not gate.paused


async def test_a_turn_is_given_to_every_ready_task():
    gate, order = Gate(), []
    gate.yield_turn()
    assert gate.busy
    assert not gate.paused
    asyncio.get_running_loop().call_soon(order.append, "other")
    await gate.ready()
    assert order == ["other"]
    assert not gate.busy


async def test_a_reader_that_is_cancelled_keeps_nobody_from_resuming():
    gate = Gate()
    gate.pause()
    reader = asyncio.create_task(gate.ready())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    reader.cancel()
    await asyncio.wait([reader])
    gate.resume()
    assert not gate.paused


def test_two_gates_may_pause_each_other():
    one, other = Gate(), Gate()
    end = one.also(other)
    other.also(one)
    one.pause()
    assert one.paused
    assert other.paused
    one.resume()
    assert not one.paused
    assert not other.paused
    one.pause()
    end()
    assert not other.paused
    one.resume()


def test_a_gate_that_is_paused_already_pauses_the_one_behind_it():
    one, other = Gate(), Gate()
    one.pause()
    one.also(other)
    assert other.paused
    one.resume()
    assert not other.paused
