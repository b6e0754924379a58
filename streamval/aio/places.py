"""Who may run now: so many at once, so many waiting, and no more."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from streamval.errors import StreamvalError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


STOPPING = "the server is stopping; try again"


class FullError(StreamvalError):
    """There is no place, and none to wait for one.

    Attributes:
        retry_after: Seconds after which it is worth trying again.
    """

    def __init__(self, retry_after: int) -> None:
        super().__init__("the server is busy; try again later")
        self.retry_after = retry_after


class ClosedError(StreamvalError):
    """Nobody is let in any more."""


class Places:
    """So many runs at once, first come first served, and so many that wait.

    Args:
        runs: Runs at once.
        waiting: Requests that may wait; more are refused.

    Attributes:
        running: How many run.

    Example:
        >>> async def main():
        ...     places = Places(1, 0)
        ...     async with places.one():
        ...         try:
        ...             async with places.one():
        ...                 pass
        ...         except FullError as error:
        ...             print(error)
        >>> asyncio.run(main())
        the server is busy; try again later
    """

    def __init__(self, runs: int, waiting: int) -> None:
        self._runs, self._most_waiting = runs, waiting
        self._queue: deque[asyncio.Future[None]] = deque()
        self.running = 0
        self._closed = False

    def close(self) -> None:
        """Let nobody in any more: those who wait are refused, those who run go on."""
        self._closed = True
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_exception(ClosedError(STOPPING))

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._queue)

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """A place, as soon as there is one.

        Raises:
            FullError: If too many wait already.
            ClosedError: After `close`.
        """
        if self._closed:
            raise ClosedError(STOPPING)
        if self.running < self._runs and not self._queue:
            self.running += 1
        else:
            await self._wait()
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self) -> None:
        if len(self._queue) >= self._most_waiting:
            raise FullError(1 + len(self._queue) // max(self._runs, 1))
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._pass_on()  # the place came at the same moment
            elif turn in self._queue:
                self._queue.remove(turn)
            raise

    def _pass_on(self) -> None:
        """A place is free: it is the next one's, who counts as running at once."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.running -= 1
