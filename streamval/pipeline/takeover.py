"""Which backend goes on where a stream broke off, and when.

A pipeline has one backend or several, in the order of its list. A run begins with the first one that has not just
failed. Where a stream breaks off, the rules are these:

- A stream that broke in the middle is resumed by the same backend: most are cut by the network, and its server has the
  text in its cache. Otherwise the next backend of the list is asked, after the last one the first again.
- A backend that refused (a wrong key, a model that it does not know) is not asked again in this run.
- Each attempt spends one of `Repair.resume`. Only before anything was delivered, backends that were not asked yet are free.
- A backend that has failed is asked after its ``Retry-After``, or a pause that grows (`Breaker`). Of those that may
  be asked, the one with the shortest wait is next.
"""

from __future__ import annotations

from collections.abc import Sequence

from streamval.backends.base import Backend
from streamval.errors import BackendError, DeltaTypeError, StreamBrokenError

LONGEST_WAIT = 60.0
"""Seconds. Where all backends want more time, the error ends the run."""


def may_resume(error: BaseException) -> bool:
    """Return whether the same backend may succeed a moment later."""
    return getattr(error, "may_resume", isinstance(error, (ConnectionError, TimeoutError)))


class Takeover:
    """Chooses the backends of one run.

    Args:
        backends: In order.
        budget: How often a stream is resumed.

    Attributes:
        current: The backend that generates.
    """

    def __init__(self, backends: Sequence[Backend], budget: int) -> None:
        self.current = backends[0]
        self._backends = backends
        self._budget = budget
        self._asked: tuple[int, ...] = ()
        self._refused: tuple[int, ...] = ()

    def begin(self, now: float) -> None:
        """Choose the first backend that has not just failed; where all have, the one that may be asked first."""
        if len(self._backends) > 1:
            self.current = min(self._backends, key=lambda one: one.breaker.wait(now))

    def went_well(self) -> None:
        """Note that the current backend has written something that was delivered."""
        self.current.breaker.went_well()

    def after(
        self, error: BaseException, now: float, *, begun: bool, delivered: bool
    ) -> float | None:
        """Choose who goes on after an error.

        Args:
            error: What broke the stream.
            now: The time of the event loop.
            begun: Whether something of this stream was delivered.
            delivered: Whether something of the run was.

        Returns:
            The seconds to wait before `current` is asked; `None` where the error ends the run.
        """
        if isinstance(error, DeltaTypeError) or not (
            may_resume(error) or isinstance(error, BackendError)
        ):
            return None
        cut = isinstance(error, (StreamBrokenError, ConnectionError))
        count, last = len(self._backends), self._backends.index(self.current)
        self._asked += (last,)
        if not may_resume(error):
            self._refused += (last,)
        elif not begun:
            self.current.breaker.failed(
                at=now, retry_after=getattr(error, "retry_after", None), at_once=cut
            )
        stays = begun and cut
        order = [(last + step) % count for step in range(not stays, count + (not stays))]
        order = [
            one
            for one in order
            if one not in self._refused and self._pays(one, delivered=delivered)
        ]
        if not order:
            return None
        wait, chosen = min(
            (self._backends[one].breaker.wait(now), at) for at, one in enumerate(order)
        )
        if wait > LONGEST_WAIT:
            return None
        position = order[chosen]
        if delivered or position in self._asked:
            self._budget -= 1
        self.current = self._backends[position]
        return wait

    def _pays(self, position: int, *, delivered: bool) -> bool:
        """Return whether the budget allows to ask a backend."""
        return self._budget > 0 or not (delivered or position in self._asked)
