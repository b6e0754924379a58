"""An event loop whose clock jumps: tests about seconds take none."""

from __future__ import annotations

import asyncio


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Instead of waiting for a timer, moves the clock to it; and by a `tick` in each turn."""

    def __init__(self, tick=0.0):
        super().__init__()
        self._now = 0.0
        select = self._selector.select

        def jump(timeout=None):
            self._now += max(timeout or 0.0, tick)
            return select(0)

        self._selector.select = jump

    def time(self):
        return self._now


def run_virtually(coroutine, tick=0.0):
    """Run to the end; returns the result and how many virtual seconds it took.

    What looks at the clock until enough of it has gone by needs a `tick`, as no clock stands still.
    """
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(tick)) as runner:

        async def timed():
            loop = asyncio.get_running_loop()
            before = loop.time()
            result = await coroutine
            return result, loop.time() - before

        return runner.run(timed())
