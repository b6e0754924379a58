"""Tests of `streamval.aio.tasks`."""

import asyncio
import contextvars

import pytest

from streamval import bridge
from streamval.aio.tasks import side_by_side, start_eagerly
from streamval.errors import RunError
from streamval.testing import run_virtually
from tests.support.async_source import Source


def test_outside_an_event_loop_the_error_says_what_to_do():
    seen = []
    bridge.from_async_iterable(Source(1)).subscribe(print, seen.append)
    assert isinstance(seen[0], RunError)
    assert "asyncio.run" in str(seen[0])


async def test_side_by_side_keeps_the_order_and_cancels_the_rest_at_an_error():
    async def after(turns, value):
        for _ in range(turns):
            await asyncio.sleep(0)
        return value

    assert await side_by_side(after(3, "a"), after(1, "b")) == ["a", "b"]
    ended = []

    async def hangs():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def raises():
        await asyncio.sleep(0)
        raise ValueError("one")

    with pytest.raises(ValueError, match="one"):
        await side_by_side(hangs(), raises())
    assert ended == [True]


def test_side_by_side_does_not_wait_for_what_ignores_its_cancellation():
    async def stubborn():
        while True:
            try:
                await asyncio.sleep(1000)
                return
            except asyncio.CancelledError:
                pass

    async def raises():
        await asyncio.sleep(1)
        raise ValueError("one")

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        with pytest.raises(ValueError, match="one"):
            await side_by_side(stubborn(), raises())
        at = asyncio.get_running_loop().time()
        await asyncio.sleep(2000)
        return at

    assert run_virtually(main())[0] < 10


async def test_side_by_side_what_is_no_exception_comes_out_and_the_loop_goes_on():
    async def leaves():
        raise SystemExit(3)

    async def waits():
        await asyncio.sleep(1000)

    with pytest.raises(SystemExit):
        await side_by_side(waits(), leaves())
    assert await side_by_side(asyncio.sleep(0, 1), asyncio.sleep(0, 2)) == [1, 2]


async def test_a_callback_that_is_scheduled_while_a_task_is_made_is_not_its_step(monkeypatch):
    """A garbage collection may run a finalizer at that moment, which calls `call_soon`."""
    loop = asyncio.get_running_loop()
    called = []

    async def work():
        called.append("work")

    def get_debug():  # a task asks for it before it schedules its first step
        monkeypatch.undo()
        loop.call_soon(called.append, "finalizer")
        return False

    monkeypatch.setattr(loop, "get_debug", get_debug)
    task = start_eagerly(work(), loop, contextvars.copy_context())
    assert called == ["work"]
    await task
    await asyncio.sleep(0)
    assert called == ["work", "finalizer"]
