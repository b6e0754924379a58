"""An event loop whose clock jumps: tests about seconds take none."""

from __future__ import annotations

import asyncio


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Instead of waiting for a timer, moves the clock to it."""

    def __init__(self):
        super().__init__()
        self._now = 0.0
        select = self._selector.select

        def jump(timeout=None):
            if timeout:
                self._now += timeout
            return select(0)

        self._selector.select = jump

    def time(self):
        return self._now


def run_virtually(coroutine):
    """Run to the end; returns the result and how many virtual seconds it took."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:

        async def timed():
            loop = asyncio.get_running_loop()
            before = loop.time()
            result = await coroutine
            return result, loop.time() - before

        return runner.run(timed())
