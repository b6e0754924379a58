"""Tests of `streamval.aio.scope`."""

import asyncio

from reactivex import operators as ops

import streamval as sv
from streamval import bridge
from streamval.aio.tasks import CLOSING_GRACE
from streamval.testing import run_virtually
from tests.support.sources import Judge


def test_a_source_that_ignores_its_cancellation_does_not_hang_the_close():
    async def stubborn():
        yield 1
        while True:
            try:
                await asyncio.sleep(1000)
                return
            except asyncio.CancelledError:
                pass

    async def main():
        told = []
        asyncio.get_running_loop().set_exception_handler(lambda _, ctx: told.append(ctx["message"]))
        async with bridge.to_stream(bridge.from_async_iterable(stubborn)).stream() as items:
            async for _ in items:
                break
        closed_at = asyncio.get_running_loop().time()
        await asyncio.sleep(1000)
        return told, closed_at

    (told, closed_at), _ = run_virtually(main())
    assert closed_at == CLOSING_GRACE
    assert "ignores its cancellation" in told[0]


async def test_a_judge_may_read_an_observable_of_its_own():
    class Asks(Judge):
        async def stream_validate(self, chunk, *, backend, ctx):
            await sv.ScriptedBackend("yes yes", token_size=1).observe("q").pipe(ops.to_list())
            return sv.PartialValidationResult("pass")

    pipeline = sv.Pipeline(
        sv.ScriptedBackend("One. Two. Three.", token_size=3),
        requirements=[Asks()],
        max_pending_chunks=1,
        stall_timeout=5,
    )
    async with asyncio.timeout(60):
        assert (await pipeline.run("go")).success
