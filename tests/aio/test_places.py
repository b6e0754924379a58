"""Tests of `streamval.aio.places`."""

import asyncio
import random

import pytest

from streamval.aio.places import ClosedError, FullError, Places


async def test_first_come_first_served_and_the_rest_refused():
    places, order, go_on = Places(2, 2), [], asyncio.Event()

    async def one(name):
        async with places.one():
            order.append(name)
            await go_on.wait()

    tasks = [asyncio.create_task(one(name)) for name in "abcd"]
    await asyncio.sleep(0)
    assert (order, places.running, places.waiting) == (["a", "b"], 2, 2)
    with pytest.raises(FullError) as raised:
        await one("e")
    assert raised.value.retry_after >= 1
    go_on.set()
    await asyncio.gather(*tasks)
    assert (order, places.running, places.waiting) == (["a", "b", "c", "d"], 0, 0)


async def test_whoever_is_cancelled_takes_no_place_along():
    for seed in range(200):
        dice = random.Random(seed)
        places = Places(2, 50)

        async def one(places=places, dice=dice):
            async with places.one():
                for _ in range(dice.randrange(4)):
                    await asyncio.sleep(0)
                if dice.random() < 0.2:
                    raise OSError

        tasks = [asyncio.create_task(one()) for _ in range(12)]
        for _ in range(8):
            await asyncio.sleep(0)
            dice.choice(tasks).cancel()
        await asyncio.wait(tasks)
        assert (places.running, places.waiting) == (0, 0), seed
        for task in tasks:
            if not task.cancelled():
                task.exception()


async def test_when_it_is_closed_who_waits_is_refused_and_who_runs_goes_on():
    places = Places(1, 5)
    async with places.one():

        async def wait():
            async with places.one():
                pass

        waiting = [asyncio.ensure_future(wait()) for _ in range(3)]
        while places.waiting < 3:
            await asyncio.sleep(0)
        places.close()
        refused = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(error) for error in refused] == [ClosedError] * 3
        assert places.running == 1
    assert places.running == 0
    with pytest.raises(ClosedError):
        await wait()
