"""An async source that tells what was done to it, and the way to collect what it yields."""

import asyncio

from streamval import bridge


class Source:
    """An async generator that says how far it got and whether it was closed."""

    def __init__(self, *items, hang=False, slow_close=False):
        self.items = items
        self.hang = hang
        self.slow_close = slow_close
        self.opened = self.closed = self.read = 0

    async def __call__(self):
        self.opened += 1
        try:
            for item in self.items:
                if isinstance(item, BaseException):
                    raise item
                self.read += 1
                yield item
            if self.hang:
                await asyncio.Event().wait()
        finally:
            if self.slow_close:
                await asyncio.sleep(0.01)
            self.closed += 1


async def collect(source, **options):
    return [i async for i in bridge.iterate(bridge.from_async_iterable(source, **options))]
