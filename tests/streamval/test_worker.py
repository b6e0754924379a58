"""A worker takes a first step as itself: same task, same context, whatever waits inside."""

import asyncio
from contextvars import ContextVar

import pytest

from streamval.scope import Scope
from streamval.worker import WAITING, Worker
from tests.support.virtual_time import run_virtually


class Idle:
    """A worker whose results are collected."""

    def __init__(self):
        self.scope = Scope()
        self.results = []
        self.worker = Worker(self.work, self.scope)

    async def work(self, worker):
        while True:
            job = await worker.handed_over()
            try:
                self.results.append(await job)
            except Exception as error:
                self.results.append(error)


async def test_work_that_need_not_wait_ends_in_its_first_step():
    idle = Idle()
    await asyncio.sleep(0)
    me = asyncio.current_task()

    async def quick():
        return asyncio.current_task()

    assert idle.worker.first_step(quick(), asyncio.current_task()) is idle.worker.task
    assert asyncio.current_task() is me
    await idle.scope.aclose()


async def test_work_that_waits_goes_on_in_the_worker_with_its_context():
    idle = Idle()
    await asyncio.sleep(0)
    variable = ContextVar("variable", default="outside")

    async def waits():
        before = asyncio.current_task()
        token = variable.set("inside")
        await asyncio.sleep(0.001)
        assert variable.get() == "inside"
        variable.reset(token)  # would raise in another context
        return before is asyncio.current_task()

    assert idle.worker.first_step(waits(), asyncio.current_task()) is WAITING
    assert variable.get() == "outside"
    while not idle.results:
        await asyncio.sleep(0.001)
    assert idle.results == [True]
    await idle.scope.aclose()


def test_a_timeout_entered_in_the_first_step_cancels_only_the_work():
    async def main():
        idle = Idle()
        await asyncio.sleep(0)

        async def late():
            async with asyncio.timeout(1):
                await asyncio.sleep(10)

        idle.worker.first_step(late(), asyncio.current_task())
        await asyncio.sleep(5)
        await idle.scope.aclose()
        return idle.results

    results, _ = run_virtually(main())
    assert isinstance(results[0], TimeoutError)


async def test_a_task_group_entered_in_the_first_step_belongs_to_the_worker():
    idle = Idle()
    await asyncio.sleep(0)

    async def group():
        async def raises():
            await asyncio.sleep(0)
            raise KeyError("child")

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(raises())
        return "unreachable"

    idle.worker.first_step(group(), asyncio.current_task())
    while not idle.results:
        await asyncio.sleep(0)
    assert isinstance(idle.results[0], ExceptionGroup)
    await idle.scope.aclose()


async def test_what_the_first_step_raises_is_raised_there():
    idle = Idle()
    await asyncio.sleep(0)

    async def raises():
        raise LookupError("first")

    with pytest.raises(LookupError, match="first"):
        idle.worker.first_step(raises(), asyncio.current_task())
    await idle.scope.aclose()


async def test_cancelled_right_after_the_first_step_the_work_cleans_up():
    idle = Idle()
    await asyncio.sleep(0)
    cleaned = []

    async def careful():
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    idle.worker.first_step(careful(), asyncio.current_task())
    await idle.scope.aclose()
    assert cleaned == [True]
