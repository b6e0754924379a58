"""Tests of `streamval.aio.places`."""

import asyncio
import random

import pytest

from streamval.aio.places import FullError, Places


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
