"""The pump: a task that reads an async iterator and pushes each item.

`streamval.bridge` reads sources with it. The pump knows three callbacks and no observable.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable
from contextlib import aclosing, nullcontext
from typing import Any, NamedTuple

from streamval.aio.scope import Scope
from streamval.aio.tasks import report
from streamval.errors import StallError, StreamBrokenError

FAIR_SHARE = 256
"""Items in a row, from a source that never waits, after which other tasks get a turn."""

STALL_STEPS = 16
"""How often within a `stall_timeout` the pump checks whether an item has come."""


class Receiver(NamedTuple):
    """Where items go: the three callbacks of an observer."""

    on_next: Callable[[Any], None]
    on_error: Callable[[Any], None]
    on_completed: Callable[[], None]


class Pump:
    """Reads one iterator into one receiver.

    Args:
        source: Makes the iterable.
        read: Converts each item before it is pushed; `None` drops the item.
        receiver: Where the items go.
        scope: Owns the task.
        stall_timeout: Seconds without an item before the receiver gets an error, or `None`.
        on_closed: Called once the iterator is closed, whatever ended it, with the exception that the source itself
            raised, or the stall.
    """

    task: asyncio.Task[None]

    def __init__(
        self,
        source: Callable[[], AsyncIterable[Any]],
        read: Callable[[Any], Any] | None,
        receiver: Receiver,
        scope: Scope,
        stall_timeout: float | None,
        on_closed: Callable[[BaseException | None], None] | None = None,
    ) -> None:
        self._on_closed = on_closed
        self._source = source
        self._read = read
        self._receiver = receiver
        self._scope = scope
        self._gate = scope.gate
        self._stall_timeout = stall_timeout
        self._begun = False
        self._stopped = False
        self._stalled = False
        self._broken: BaseException | None = None  # of the source
        self._pushing = False
        self._failure: BaseException | None = None
        self._quiet = False
        self._quiet_steps = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start the task that reads."""
        self.task = self._scope.spawn(self.run())

    def stop(self) -> None:
        """Push nothing more. May be called from any thread; `close` has to follow, on the loop."""
        self._stopped = True

    def close(self) -> None:
        """Close the iterator of a pump that was stopped."""
        # When on_next itself stops the pump, the pump sees the flag. Cancelling its own task would
        # take effect at its next await, perhaps while it cleans up. A task that has not begun sees
        # the flag too; cancelled, it would keep its traceback, and so this pump.
        if self._begun and not self._pushing:
            self._scope.cancel(self.task)

    async def run(self) -> None:
        """Read to the end."""
        me = asyncio.current_task()
        assert me is not None
        self.task = me  # with an eager task factory this runs before `start` has the task
        self._begun = True
        if self._stopped:
            return
        if self._stall_timeout is not None:
            self._watch(self._stall_timeout)
        try:
            await self._push_all()
        except asyncio.CancelledError:
            if self._scope.has_cancelled(self.task):
                return  # a task that ends by an exception keeps its traceback, and so this pump
            self._failure = self._broken = self._failure or cancelled_from_inside()
        except BaseException as error:  # errors of the source go to the receiver
            if self._stopped or self._stalled or self._failure is not None:
                report("A source raised while it was being closed", error)
            else:
                self._failure = self._broken = error
        finally:
            if self._timer is not None:
                self._timer.cancel()
            if self._on_closed is not None:
                self._on_closed(self._broken)
        self._report_end()

    def _report_end(self) -> None:
        try:
            if self._failure is not None:
                self._receiver.on_error(self._failure)
            elif not self._stopped and not self._stalled:
                self._receiver.on_completed()
        except (SystemExit, KeyboardInterrupt) as error:
            self._scope.crashed(error)

    async def _push_all(self) -> None:
        """Push items until the source ends, the receiver raises, or the pump is stopped."""
        on_next, read, gate = self._receiver.on_next, self._read, self._gate
        iterator: Any = aiter(self._source())
        unbroken = 0
        async with aclosing(iterator) if hasattr(iterator, "aclose") else nullcontext():
            async for item in iterator:
                if not self._stopped:
                    self._quiet = False
                    self._pushing = True
                    try:
                        made = item if read is None else read(item)
                        if made is not None:
                            on_next(made)
                    except BaseException as error:  # not to be thrown into the source
                        self._failure = error
                        self._stopped = True
                    self._pushing = False
                if self._stopped:
                    self._scope.spare(self.task)
                    break
                unbroken += 1
                if gate.busy or unbroken == FAIR_SHARE:
                    unbroken = 0
                    await gate.ready()

    def _watch(self, timeout: float) -> None:
        """Stop the pump once nothing has come for `timeout` seconds.

        The pump only clears a flag for each item, and this looks at the flag a few times within
        the timeout. It is late by one such step at most. A pump that was stopped may close its iterator for longer
        than the timeout.
        """
        if self._stopped:
            return
        if not self._quiet or self._gate.paused:
            self._quiet_steps = 0
        self._quiet = True
        if self._quiet_steps >= STALL_STEPS:
            self._stalled = True
            # Report it now: the backend may ignore its cancellation, or take long to close.
            message = (
                f"no delta for {timeout:g} seconds; the backend hangs, or needs a longer "
                "stall_timeout"
            )
            self._broken = StallError(message)
            self._receiver.on_error(self._broken)
            self._scope.cancel(self.task)
        else:
            self._quiet_steps += 1
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(timeout / STALL_STEPS, self._watch, timeout)


def cancelled_from_inside() -> StreamBrokenError:
    """Return the error for a source that was cancelled, but not by its reader."""
    return StreamBrokenError("the source was cancelled from inside, not by its reader")
