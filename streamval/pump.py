"""The pump: a task that reads an async iterator and pushes what it makes of each item.

What `streamval.bridge` reads sources with; it knows of observers no more than their three methods.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from streamval.errors import StallError, StreamBrokenError
from streamval.scope import report

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Iterable

    from reactivex.abc import ObserverBase

    from streamval.scope import Scope

T = TypeVar("T")

FAIR_SHARE = 256
"""Items that a source which never waits may push before every other task gets a turn."""

STALL_STEPS = 16
"""How often within a `stall_timeout` it is looked whether an item has come."""


class Pump:
    """Reads one iterator into one observer.

    Args:
        source: Makes what is read.
        each: Makes of each item those that are pushed for it; by default the item itself.
        last: Makes those that are pushed once the source has ended.
        observer: What they are pushed to.
        scope: Owns the task.
        stall_timeout: Seconds without an item before the observer is told an error, or `None`.
    """

    task: asyncio.Task[None]

    def __init__(
        self,
        source: Callable[[], AsyncIterable[Any]],
        each: Callable[[Any], Iterable[Any]] | None,
        last: Callable[[], Iterable[Any]] | None,
        observer: ObserverBase[Any],
        scope: Scope,
        stall_timeout: float | None,
    ) -> None:
        self._source = source
        self._each = each
        self._last = last
        self._observer = observer
        self._scope = scope
        self._demand = scope.demand
        self._stall_timeout = stall_timeout
        self._stopped = False
        self._stalled = False
        self._pushing = False
        self._failure: Exception | None = None
        self._quiet = False
        self._quiet_steps = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Read in a task of its own."""
        self.task = self._scope.spawn(self.run())

    def stop(self) -> None:
        """Push nothing more, and close the iterator."""
        if self._stopped:
            return
        self._stopped = True
        # Stopped from inside on_next, the pump sees the flag; cancelling itself would only
        # take effect wherever it next waits, perhaps while it cleans up.
        if not self._pushing:
            self._scope.cancel(self.task)

    async def run(self) -> None:
        """Read to the end."""
        me = asyncio.current_task()
        assert me is not None
        self.task = me  # with an eager task factory this comes before `start` has it
        if self._stall_timeout is not None:
            self._watch(self._stall_timeout)
        try:
            await self._read()
        except asyncio.CancelledError:
            if self._scope.has_cancelled(self.task):
                return  # a task that ends by an exception keeps its traceback, and us with it
            self._failure = self._failure or cancelled_from_inside()
        except Exception as error:  # noqa: BLE001  whatever the source raises is the observer's
            if self._stopped or self._stalled or self._failure is not None:
                report("A source raised while it was being closed", error)
            else:
                self._failure = error
        finally:
            if self._timer is not None:
                self._timer.cancel()
        if self._failure is not None:
            self._observer.on_error(self._failure)
        elif not self._stopped and not self._stalled:
            self._observer.on_completed()

    async def _read(self) -> None:
        """Push items until the source ends, the observer raises, or the pump is stopped."""
        on_next, demand = self._observer.on_next, self._demand
        each = self._each or _itself
        iterator: Any = aiter(self._source())
        unbroken = 0
        async with aclosing(iterator) if hasattr(iterator, "aclose") else nullcontext():
            async for item in iterator:
                if self._stopped:
                    self._scope.spare(self.task)
                    break
                self._quiet = False
                self._pushing = True
                try:
                    for made in each(item):
                        on_next(made)
                except Exception as error:  # noqa: BLE001  must not be thrown into the source
                    self._failure = error
                self._pushing = False
                if self._stopped or self._failure is not None:
                    self._scope.spare(self.task)
                    break
                unbroken += 1
                if demand.busy or unbroken == FAIR_SHARE:
                    unbroken = 0
                    await demand.ready()
        if not self._stopped and not self._stalled and self._failure is None:
            self._push_last()

    def _push_last(self) -> None:
        self._pushing = True
        try:
            for made in self._last() if self._last else ():
                self._observer.on_next(made)
        except Exception as error:  # noqa: BLE001  an observer's, or of what makes the last items
            self._failure = error
        self._pushing = False

    def _watch(self, timeout: float) -> None:
        """Cancel the pump once nothing has come for so long.

        The pump only clears a flag for each item, and the watch looks at it a few times within
        the timeout: it is late by one such step at most.
        """
        if not self._quiet or self._demand.held:
            self._quiet_steps = 0
        self._quiet = True
        if self._quiet_steps >= STALL_STEPS:
            self._stalled = True
            # Told at once: the backend may ignore its cancellation, or take its time over it.
            message = (
                f"no delta for {timeout:g} seconds; the backend hangs, or needs a longer "
                "stall_timeout"
            )
            self._observer.on_error(StallError(message))
            self._scope.cancel(self.task)
        else:
            self._quiet_steps += 1
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(timeout / STALL_STEPS, self._watch, timeout)


def cancelled_from_inside() -> StreamBrokenError:
    """The error for a cancellation that nobody who may cancel has asked for."""
    return StreamBrokenError("the source was cancelled from inside, not by whoever reads it")


def _itself(item: T) -> tuple[T]:
    return (item,)
