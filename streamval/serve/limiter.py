"""A FIFO limiter with a bounded queue: how many runs at once, and how many requests may wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from streamval.errors import RequestError

DRAINING = ("the server is stopping; try again", "server_error", "draining")
"""Message, kind and code of the error while the server drains."""


def draining() -> RequestError:
    """Return the error for a request that comes while the server drains."""
    message, kind, code = DRAINING
    return RequestError(message, status=503, kind=kind, code=code)


class Limiter:
    """Limits concurrent runs; further requests wait in a bounded FIFO queue.

    Args:
        runs: Runs at once.
        waiting: Requests that may wait; more are refused.
        changed: Called with the limiter when the number of running or waiting requests has changed.

    Attributes:
        running: How many run.

    Example:
        >>> async def main():
        ...     limiter = Limiter(1, 0)
        ...     async with limiter.slot():
        ...         try:
        ...             async with limiter.slot():
        ...                 pass
        ...         except RequestError as error:
        ...             print(error.status, error)
        >>> asyncio.run(main())
        429 the server is busy; try again later
    """

    def __init__(
        self, runs: int, waiting: int, changed: Callable[[Limiter], None] = lambda _: None
    ) -> None:
        self._runs, self._max_waiting, self._changed = runs, waiting, changed
        self._queue: deque[asyncio.Future[None]] = deque()
        self.running = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    def close(self) -> None:
        """Refuse waiting and new requests. Running requests continue."""
        self._closed = True
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_exception(draining())
        self._changed(self)

    async def idle(self) -> None:
        """Wait until no request runs."""
        await self._idle.wait()

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._queue)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a slot, and hold it inside the block.

        Raises:
            RequestError: With status 429 if too many wait already, with 503 after `close`.
        """
        if self._closed:
            raise draining()
        if self.running < self._runs and not self._queue:
            self.running += 1
            self._idle.clear()
            self._changed(self)
        else:
            await self._wait()
        try:
            yield
        finally:
            self._release()

    async def _wait(self) -> None:
        if len(self._queue) >= self._max_waiting:
            seconds = 1 + len(self._queue) // max(self._runs, 1)
            raise RequestError(
                "the server is busy; try again later",
                status=429,
                kind="rate_limit_error",
                code="server_busy",
                headers={"retry-after": str(seconds)},
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        self._changed(self)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._release()  # the slot came at the same moment
            elif turn in self._queue:
                self._queue.remove(turn)
                self._changed(self)
            raise

    def _release(self) -> None:
        """Give the slot to the next request, which counts as running at once."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                break
        else:
            self.running -= 1
            if not self.running:
                self._idle.set()
        self._changed(self)
