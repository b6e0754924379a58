"""How fast a job asks: a provider that asks for fewer requests slows all of it down, and then it speeds up again."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiolimiter import AsyncLimiter

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

FIRST_PAUSE = 1.0
"""Seconds of the first pause where the provider does not say; each further one is twice as long."""

LONGEST_PAUSE = 600.0
"""Seconds of a pause at most, whatever the provider says."""

LONGEST_GUESS = 60.0
"""Seconds of a pause at most where it does not say."""

CALM = 10.0
"""Seconds without being asked to slow down after which the rate is raised."""

RAISED = 1.25
"""How much it is raised by: additive increase would take hours from one a second to hundreds."""

LOWEST = 0.02
"""Requests a second at least: one in 50 seconds."""


@dataclass(frozen=True, slots=True)
class Slowed:
    """A job asks more slowly.

    Attributes:
        pause: Seconds in which nothing is asked.
        rate: Rows a second after that, at first.
        reason: What the provider said.
    """

    pause: float
    rate: float
    reason: str


class Pace:
    """Lets rows begin: as fast as they come, until a provider asks for fewer.

    Then all rows wait, as long as it says; after that half as many begin in a second as before, and a quarter more
    after each `CALM` seconds. Belongs to one event loop.

    Args:
        watch: Called with each slowing down.
    """

    def __init__(self, watch: Callable[[Slowed], object] = lambda _: None) -> None:
        self._watch = watch
        self._limiter: AsyncLimiter | None = None
        self._rate = 0.0
        self._until = 0.0
        self._since: float | None = None
        self._begun = 0
        self._pauses = 0
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """End all waiting: no row begins from now on."""
        self._stopped.set()

    async def turn(self) -> bool:
        """Wait until a row may begin.

        Returns:
            Whether it may: not, after `stop`.
        """
        now = asyncio.get_running_loop().time
        begins = False
        while not begins:
            limiter, pause = self._limiter, self._until - now()
            if pause > 0:
                await self._unless_stopped(asyncio.sleep(pause))
            elif limiter is not None:
                await self._unless_stopped(limiter.acquire())
            if self._stopped.is_set():
                return False
            # While it waited, another row may have been refused.
            begins = limiter is self._limiter and self._until <= now() and pause <= 0
        if self._since is None:
            self._since = now()
        self._begun += 1
        return True

    async def _unless_stopped(self, waiting: Coroutine[Any, Any, None]) -> None:
        tasks = [asyncio.ensure_future(waiting), asyncio.ensure_future(self._stopped.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    def slow_down(self, reason: str, retry_after: float | None = None) -> None:
        """A row has been refused, because there are too many.

        Rows that were under way already are refused with it: they are one slowing down.

        Args:
            reason: What the provider said.
            retry_after: Seconds that it asks for.
        """
        now = asyncio.get_running_loop().time()
        if now < self._until:
            if retry_after is not None and retry_after >= 0:
                self._until = max(self._until, now + min(retry_after, LONGEST_PAUSE))
            return
        if retry_after is None or not retry_after >= 0:  # no number, too
            retry_after = min(FIRST_PAUSE * 2**self._pauses, LONGEST_GUESS)
        self._pauses = min(self._pauses + 1, 10)
        pause = min(retry_after, LONGEST_PAUSE)
        seconds = 0.0 if self._since is None else now - self._since
        before = self._begun / max(seconds, 1.0)
        if self._limiter is not None:
            before = min(before, self._rate) if seconds >= 1 else self._rate
        self._until, self._since, self._begun = now + pause, None, 0
        self._limit(max(before / 2, LOWEST))
        self._watch(Slowed(pause, self._rate, reason))

    def went_well(self) -> None:
        """A row has been answered."""
        if self._limiter is None or self._since is None:
            return
        now = asyncio.get_running_loop().time()
        if now - self._since >= CALM and now >= self._until:
            self._since, self._begun, self._pauses = now, 0, 0
            self._limit(self._rate * RAISED)

    def _limit(self, rate: float) -> None:
        self._rate = rate
        self._limiter = AsyncLimiter(1, 1 / rate)
