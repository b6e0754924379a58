"""An async source that tells what was done to it, and the way to collect what it yields."""

import asyncio

from streamval import bridge


class Source:
    """An async generator that says how far it got and whether it was closed.

    Args:
        items: What it yields; an exception is raised.
        hang: Waits at its end.
        closing: What it waits for as it is closed; a turn of the loop or two by default.
    """

    def __init__(self, *items, hang=False, closing=None):
        self.items = items
        self.hang = hang
        self.closing = closing
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
            await (self.closing.wait() if self.closing else turns(3))
            self.closed += 1


async def turns(count):
    """Let the loop turn so often."""
    for _ in range(count):
        await asyncio.sleep(0)


async def collect(source, **options):
    return [i async for i in bridge.iterate(bridge.from_async_iterable(source, **options))]
