"""`Gate`: pauses the reader of a source while its consumers cannot keep up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Gate:
    """A gate between the reader of a source and consumers that may be slower.

    The gate is open until it is paused. Each `pause` needs its own `resume`.

    Attributes:
        busy: True while a reader has to wait. A plain attribute, as it is read for every delta.

    Example:
        >>> gate = Gate()
        >>> gate.pause()
        >>> gate.paused, gate.busy
        (True, True)
    """

    __slots__ = ("_behind", "_inherited", "_pauses", "_waiters", "busy")

    def __init__(self) -> None:
        self.busy = False
        self._pauses = self._inherited = 0
        self._behind: list[Gate] = []
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def paused(self) -> bool:
        """Whether the gate is paused. `busy` stays true until a reader has waited for one turn."""
        return self._pauses > 0 or self._inherited > 0

    def pause(self) -> None:
        """Stop readers before their next item."""
        self._pauses += 1
        self.busy = True
        if self._pauses == 1:
            for gate in self._behind:
                gate.inherit(1)

    def resume(self) -> None:
        """Undo one `pause`. The last `resume` wakes the readers."""
        self._pauses -= 1
        if not self._pauses:
            self._wake()
            for gate in self._behind:
                gate.inherit(-1)

    def also(self, behind: Gate) -> Callable[[], None]:
        """Pause another gate as well whenever this one is. Return a function that ends that.

        What a gate inherits it does not pass on, as two runs may listen to each other.
        """
        if behind is self:
            return lambda: None
        self._behind.append(behind)
        if self._pauses:
            behind.inherit(1)

        def end() -> None:
            self._behind.remove(behind)
            if self._pauses:
                behind.inherit(-1)

        return end

    def inherit(self, pauses: int) -> None:
        """Be paused, or not any more, because another gate is."""
        self._inherited += pauses
        self.busy = True
        self._wake()

    def _wake(self) -> None:
        """Wake the readers, unless the gate is paused."""
        if not self.paused:
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters.clear()

    def yield_turn(self) -> None:
        """Let every ready task run once before the next item is read.

        Without this, a source that never waits would run far ahead of verdicts that are ready.
        """
        self.busy = True

    async def ready(self) -> None:
        """Wait until the gate is open, and for at least one turn of the loop."""
        await asyncio.sleep(0)
        while self.paused:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        self.busy = False
