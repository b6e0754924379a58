"""An event loop whose clock jumps: tests about seconds take none."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

QUIET = 30.0
"""Real seconds in which another thread may wake a virtual loop that has nothing else to wait for."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Instead of waiting for a timer, moves the clock to it; and by a `tick` in each turn.

    For what has no socket, process or thread to wait for. Time operators of reactivex follow this clock too, as
    our observables run them on the loop.

    Args:
        tick: Seconds that each turn of the loop takes. What looks at the clock until enough time has gone by
            needs one, as no clock stands still.
    """

    def __init__(self, tick: float = 0.0) -> None:
        super().__init__()
        self._now = 0.0
        selector: Any = getattr(self, "_selector")  # noqa: B009  typeshed does not know it
        select = selector.select

        def jump(timeout: float | None = None) -> Any:
            self._now += max(timeout or 0.0, tick)
            if timeout is not None:
                return select(0)
            found = select(QUIET)  # no timer is left: only another thread can go on
            if not found:
                raise RuntimeError("nothing is left to wait for: the coroutine would never end")
            return found

        selector.select = jump

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Wait for threads, whose time is real, and not virtual."""
        await super().shutdown_default_executor()

    def time(self) -> float:
        """Return the virtual time, in seconds from 0."""
        return self._now


def run_virtually(coroutine: Coroutine[Any, Any, T], tick: float = 0.0) -> tuple[T, float]:
    """Run a coroutine to its end on a `VirtualTimeLoop`, as `asyncio.run` does.

    Args:
        coroutine: What to run.
        tick: As for the loop.

    Returns:
        The result, and how many virtual seconds it took.

    Raises:
        RuntimeError: If a loop is running already.
        BaseException: What the coroutine raises.

    Example:
        >>> async def wait():
        ...     await asyncio.sleep(3600)
        ...     return "done"
        >>> run_virtually(wait())
        ('done', 3600.0)
    """
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(tick)) as runner:

        async def timed() -> tuple[T, float]:
            loop = asyncio.get_running_loop()
            before = loop.time()
            result = await coroutine
            return result, loop.time() - before

        return runner.run(timed())
