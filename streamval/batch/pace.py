"""The rate of a job: it slows down when a provider asks for fewer requests, then speeds up again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

FIRST_PAUSE = 1.0
"""Seconds of the first pause without a `Retry-After`; each further pause is twice as long."""

LONGEST_PAUSE = 600.0
"""The longest pause in seconds, whatever the `Retry-After`."""

LONGEST_GUESS = 60.0
"""The longest pause in seconds without a `Retry-After`."""

CALM = 10.0
"""Seconds without a refusal after which the rate is raised."""

RAISED = 1.25
"""The factor. An additive increase would take hours to get from one request a second to hundreds."""

LOWEST = 0.02
"""The lowest rate in requests a second: one in 50 seconds."""


@dataclass(frozen=True, slots=True)
class Slowed:
    """A job has slowed down.

    Attributes:
        pause: Seconds without requests.
        rate: Rows a second after that, at first.
        reason: The provider's message.
    """

    pause: float
    rate: float
    reason: str


class Pace:
    """Limits the rate at which rows begin, once a provider asks for fewer requests.

    Then all rows wait for the `Retry-After`; after that the rate is half of what it was, and a quarter more
    after each `CALM` seconds. Belongs to one event loop.

    Args:
        watch: Called with a `Slowed` each time the rate is lowered.
    """

    def __init__(self, watch: Callable[[Slowed], object] = lambda _: None) -> None:
        self._watch = watch
        self._rate: float | None = None
        self._next = 0.0
        self._until = 0.0
        self._since: float | None = None
        self._begun = 0
        self._pauses = 0
        self._stopped = asyncio.Event()
        self._first = asyncio.Lock()  # only the first row in the queue waits for the time

    def stop(self) -> None:
        """End all waiting: no row begins from now on."""
        self._stopped.set()

    async def turn(self) -> bool:
        """Wait until a row may begin.

        Returns:
            True if a row may begin; False after `stop`.
        """
        now = asyncio.get_running_loop().time
        async with self._first:
            while not self._stopped.is_set() and (wait := max(self._until, self._next) - now()) > 0:
                # Another row may be refused while this one waits.
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopped.wait(), wait)
            if self._stopped.is_set():
                return False
            if self._rate is not None:
                self._next = now() + 1 / self._rate
        if self._since is None:
            self._since = now()
        self._begun += 1
        return True

    def slow_down(self, reason: str, retry_after: float | None = None) -> None:
        """Slow down, because a row was refused for too many requests.

        Refusals during the pause count as the same refusal.

        Args:
            reason: The provider's message.
            retry_after: The seconds of the `Retry-After`.
        """
        now = asyncio.get_running_loop().time()
        if now < self._until:
            if retry_after is not None and retry_after >= 0:
                self._until = max(self._until, now + min(retry_after, LONGEST_PAUSE))
            return
        if retry_after is None or not retry_after >= 0:  # also rejects NaN
            retry_after = min(FIRST_PAUSE * 2**self._pauses, LONGEST_GUESS)
        self._pauses = min(self._pauses + 1, 10)
        pause = min(retry_after, LONGEST_PAUSE)
        seconds = 0.0 if self._since is None else now - self._since
        before = self._begun / max(seconds, 1.0)
        if self._rate is not None:
            before = min(before, self._rate) if seconds >= 1 else self._rate
        self._until, self._since, self._begun = now + pause, None, 0
        self._rate = max(before / 2, LOWEST)
        self._watch(Slowed(pause, self._rate, reason))

    def went_well(self) -> None:
        """Note that a row was answered."""
        if self._rate is None or self._since is None:
            return
        now = asyncio.get_running_loop().time()
        if now - self._since >= CALM and now >= self._until:
            self._since, self._begun, self._pauses = now, 0, 0
            self._rate *= RAISED
