"""Starting tasks, waiting for several of them, and reporting errors that are not awaited."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, TypeVar

from streamval.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextvars import Context

T = TypeVar("T")

CLOSING_GRACE = 5.0
"""Seconds that a cancelled task may take to end. A task that ignores its cancellation for longer
is reported to the loop's exception handler and left behind, so that closing never hangs."""

EAGER = sys.version_info >= (3, 12)
"""Whether `start_eagerly` runs the first step of a task at once (Python 3.12 and later)."""


def running_loop() -> asyncio.AbstractEventLoop:
    """The running event loop.

    Raises:
        RunError: If there is none.
    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        message = "there is no running event loop; subscribe inside one, as in asyncio.run(main())"
        raise RunError(message) from None


def start_eagerly(
    work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop, context: Context
) -> asyncio.Task[T]:
    """Start a task that runs at once, up to where it has to wait.

    A task that never waits is done when this returns, and the event loop never sees it. Before
    Python 3.12 there are no such tasks: an ordinary one begins in the next turn of the loop.

    Args:
        work: What the task runs.
        loop: The running loop.
        context: The context that the task runs in. No other code may be running in it.

    Returns:
        The task.
    """
    if sys.version_info >= (3, 12):
        return asyncio.Task(work, loop=loop, context=context, eager_start=True)
    return loop.create_task(work, context=context)


async def side_by_side(*work: Coroutine[Any, Any, T]) -> list[T]:
    """Run coroutines beside each other and wait for all of them.

    Args:
        *work: What to run.

    Returns:
        The results, in the order given.

    Raises:
        BaseException: The first that one of them raises. The others are cancelled and have ended.

    Example:
        >>> asyncio.run(side_by_side(asyncio.sleep(0, "one"), asyncio.sleep(0, "two")))
        ['one', 'two']
    """
    if len(work) == 1:  # a task of its own would buy nothing
        return [await work[0]]
    tasks = [asyncio.ensure_future(_carried(one)) for one in work]
    try:
        return list(await asyncio.gather(*tasks))
    except _Carrier as carrier:
        raise carrier.carried from None
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            _, ignoring = await asyncio.wait(tasks, timeout=CLOSING_GRACE)
            for task in ignoring:
                report(f"{task!r} ignores its cancellation and was left behind", None)
        for task, one in zip(tasks, work, strict=True):
            if task.done():
                one.close()  # which a task that never began has not awaited
            if task.done() and not task.cancelled():
                task.exception()  # retrieved: the first one is raised, the others follow from it


class _Carrier(Exception):  # noqa: N818  never seen outside
    """Carries what is no `Exception` out of a task: a `SystemExit` would stop the event loop."""

    def __init__(self, carried: BaseException) -> None:
        super().__init__(carried)
        self.carried = carried


async def _carried(work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as error:
        raise _Carrier(error) from error


async def in_thread(fn: Callable[..., T], *args: Any) -> T:
    """Call a function on a thread, and wait for it.

    Raises:
        RuntimeError: If it raises `StopIteration`, which cannot leave a coroutine.
        BaseException: What else it raises.
    """

    def call() -> T:
        try:
            return fn(*args)
        except StopIteration as error:
            message = f"{getattr(fn, '__name__', fn)} raised StopIteration"
            raise RuntimeError(message) from error

    return await asyncio.to_thread(call)


def report(message: str, error: BaseException | None) -> None:
    """Hand an error that is not awaited to the loop's exception handler, which logs it."""
    context: dict[str, Any] = {"message": message}
    if error is not None:
        context["exception"] = error
    asyncio.get_running_loop().call_exception_handler(context)
