"""A bounded buffer between code that pushes items and code that pulls them."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from typing import Generic, TypeVar

from streamval.aio.gate import Gate

T = TypeVar("T")

BUFFER = 64
"""Items that may wait for a slow consumer before the inbox pauses the source."""


class Inbox(Generic[T]):
    """A bounded buffer: items are put in, and iterated in the same order.

    Args:
        gate: Paused while the buffer is full.
        size: How many items may wait.
        drop: Drop the oldest item when the buffer is full, and never pause the gate.

    Example:
        >>> from streamval.aio.gate import Gate
        >>> async def main():
        ...     inbox = Inbox(Gate())
        ...     inbox.put("one")
        ...     inbox.close()
        ...     return [item async for item in inbox]
        >>> asyncio.run(main())
        ['one']
    """

    def __init__(self, gate: Gate, size: int = BUFFER, *, drop: bool = False) -> None:
        self._gate = gate
        self._size = size
        self._items: deque[T] = deque(maxlen=size if drop else None)
        self._drop = drop
        self._pausing = False
        self._closed = False
        self._waiter: asyncio.Future[None] | None = None

    def put(self, item: T) -> None:
        """Add an item."""
        self._items.append(item)
        if not self._drop and not self._pausing and len(self._items) >= self._size:
            self._pausing = True
            self._gate.pause()
        self._wake()

    def close(self) -> None:
        """End the iteration after the waiting items."""
        self._closed = True
        self._wake()

    def clear(self) -> None:
        """Drop the waiting items, and resume the gate if this inbox has paused it."""
        self._items.clear()
        self.resume()

    def unbound(self) -> None:
        """Take any number of items from now on, and never pause the gate again."""
        self._size = sys.maxsize
        self.resume()

    def resume(self) -> None:
        """Open the gate again, if this inbox has paused it."""
        if self._pausing:
            self._pausing = False
            self._gate.resume()

    def __aiter__(self) -> Inbox[T]:
        return self

    async def __anext__(self) -> T:
        while not self._items:
            if self._closed:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        item = self._items.popleft()
        if len(self._items) < self._size:
            self.resume()
        return item

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
