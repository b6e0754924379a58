"""Tests of `streamval.serve.limiter`."""

import asyncio
import random

import pytest

from streamval.errors import RequestError
from streamval.serve.limiter import Limiter


async def test_first_come_first_served_and_the_rest_refused():
    limiter, order, go_on = Limiter(2, 2), [], asyncio.Event()

    async def one(name):
        async with limiter.slot():
            order.append(name)
            await go_on.wait()

    tasks = [asyncio.create_task(one(name)) for name in "abcd"]
    await asyncio.sleep(0)
    assert (order, limiter.running, limiter.waiting) == (["a", "b"], 2, 2)
    with pytest.raises(RequestError) as raised:
        await one("e")
    assert (raised.value.status, raised.value.headers) == (429, {"retry-after": "2"})
    go_on.set()
    await asyncio.gather(*tasks)
    assert (order, limiter.running, limiter.waiting) == (["a", "b", "c", "d"], 0, 0)


async def test_whoever_is_cancelled_takes_no_place_along():
    for seed in range(200):
        dice = random.Random(seed)
        limiter = Limiter(2, 50)

        async def one(limiter=limiter, dice=dice):
            async with limiter.slot():
                for _ in range(dice.randrange(4)):
                    await asyncio.sleep(0)
                if dice.random() < 0.2:
                    raise OSError

        tasks = [asyncio.create_task(one()) for _ in range(12)]
        for _ in range(8):
            await asyncio.sleep(0)
            dice.choice(tasks).cancel()
        await asyncio.wait(tasks)
        assert (limiter.running, limiter.waiting) == (0, 0), seed
        for task in tasks:
            if not task.cancelled():
                task.exception()


async def test_when_it_is_closed_who_waits_is_refused_and_who_runs_goes_on():
    limiter = Limiter(1, 5)
    async with limiter.slot():

        async def wait():
            async with limiter.slot():
                pass

        waiting = [asyncio.ensure_future(wait()) for _ in range(3)]
        while limiter.waiting < 3:
            await asyncio.sleep(0)
        limiter.close()
        refused = await asyncio.gather(*waiting, return_exceptions=True)
        assert [error.status for error in refused] == [503] * 3
        assert limiter.running == 1
    assert limiter.running == 0
    with pytest.raises(RequestError, match="stopping"):
        await wait()
