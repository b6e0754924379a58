"""A circuit breaker: a server that keeps failing is not asked for a while."""

from __future__ import annotations

FIRST_PAUSE = 0.5
"""Seconds after the first failure; each further one in a row doubles them."""

LONGEST_PAUSE = 30.0
"""The most seconds without a ``Retry-After``."""


class Breaker:
    """Says when a server that has failed may be asked again. Shared by the runs that ask it.

    Times are seconds of a clock that never goes back: the event loop's.

    Example:
        >>> breaker = Breaker()
        >>> for at in (10.0, 10.5):
        ...     breaker.failed(at=at)
        >>> breaker.wait(11.0), breaker.wait(12.0)
        (0.5, 0.0)
        >>> breaker.failed(at=12.0, retry_after=7.0)
        >>> breaker.wait(12.0)
        7.0
    """

    def __init__(self) -> None:
        self._failures = 0
        self._until = 0.0

    def failed(self, *, at: float, retry_after: float | None = None, at_once: bool = False) -> None:
        """Note a failure.

        Args:
            at: The time.
            retry_after: The server's ``Retry-After``, in seconds.
            at_once: Whether the server may be asked again at once after a first failure: it was not busy.
        """
        pause = min(FIRST_PAUSE * 2.0 ** min(self._failures, 16), LONGEST_PAUSE)
        if at_once and not self._failures:
            pause = 0.0
        self._failures += 1
        self._until = at + (pause if retry_after is None else retry_after)

    def went_well(self) -> None:
        """Note that the server has written something."""
        self._failures, self._until = 0, 0.0

    def wait(self, now: float) -> float:
        """Return the seconds until it may be asked; 0 where it may be asked now."""
        return max(self._until - now, 0.0)
