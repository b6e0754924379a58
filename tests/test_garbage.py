"""A run is freed as it ends: nothing of it waits for the garbage collector.

With a thousand runs alive, a collection takes longer than all they have done since the last one.
"""

import asyncio
import gc

import pytest

import streamval as sv
from tests.support.breaking import Breaking
from tests.support.sources import Judge, Spoken, fails_on

SENTENCES = ["One is. ", "Two is. ", "Three is. "]


async def slowly(_):
    await asyncio.sleep(0)
    return "pass"


async def natural_end():
    await sv.Pipeline(Spoken(*SENTENCES), requirements=[Judge(), Judge(slowly)]).run("go")


async def events():
    async with sv.Pipeline(Spoken(*SENTENCES), requirements=[Judge()]).start("go") as run:
        async for _ in run:
            pass


async def chunks():
    run = sv.Pipeline(Spoken(*SENTENCES)).start("go")
    async for _ in run.chunks():
        pass


async def failure():
    pipeline = sv.Pipeline(
        Spoken(*SENTENCES), requirements=[Judge(fails_on("Two is.")), Judge(slowly)]
    )
    assert not (await pipeline.run("go")).success


async def repair():
    backend = Spoken(SENTENCES, ["Two was. ", "Four is. "], supports_prefix=True)
    pipeline = sv.Pipeline(
        backend, requirements=[Judge(fails_on("Two is."))], retry=sv.Repair(loop_budget=2)
    )
    assert len((await pipeline.run("go")).attempts) == 2


async def resumed():
    backend = Breaking(SENTENCES, [2])
    assert len((await sv.Pipeline(backend, retry=sv.Repair()).run("go")).attempts) == 2


async def left_early():
    async with sv.Pipeline(Spoken(*SENTENCES, 100)).start("go") as run:
        async for _ in run:
            break


async def slow_subscriber():
    run = sv.Pipeline(Spoken(*SENTENCES)).start("go")

    async def sink(event):
        await asyncio.sleep(0)

    run.subscribe(sink)
    await run


async def operators():
    pipeline = sv.Pipeline(
        Spoken(*SENTENCES), delta_operators=[lambda o: o], chunk_operators=[lambda o: o]
    )
    await pipeline.run("go")


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


@pytest.mark.parametrize(
    "use",
    [natural_end, events, chunks, failure, repair, resumed, left_early, slow_subscriber, operators],
)
def test_nothing_of_a_run_is_left_to_the_collector(no_collector, use):
    async def main():
        await use()  # with all that is made once
        await asyncio.sleep(0.01)
        gc.collect()
        gc.set_debug(gc.DEBUG_SAVEALL)
        await use()
        await asyncio.sleep(0.01)
        gc.collect()
        return [type(left) for left in gc.garbage]

    left = asyncio.run(main())
    assert [kind for kind in left if kind.__module__.startswith(("streamval", "reactivex"))] == []
