"""Starting tasks, waiting for several of them, and reporting errors that are not awaited."""

from __future__ import annotations

import asyncio
import sys
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

from streamval.errors import RunError

T = TypeVar("T")

CLOSING_GRACE = 5.0
"""Seconds that a cancelled task may take to end. A task that ignores its cancellation for longer
is reported to the loop's exception handler and left behind, so that closing never hangs."""


def loop_or_none() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs on this thread, if any."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the running event loop.

    Raises:
        RunError: If there is none.
    """
    loop = loop_or_none()
    if loop is None:
        raise no_loop()
    return loop


def no_loop() -> RunError:
    """Return the error for work that needs an event loop."""
    return RunError(
        "there is no running event loop; subscribe inside one, as in asyncio.run(main())"
    )


def start_eagerly(
    work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop, context: Context
) -> asyncio.Task[T]:
    """Start a task that runs at once, up to where it has to wait.

    A task that never waits is done when this returns, and the event loop never sees it.

    Args:
        work: The coroutine.
        loop: The running loop.
        context: The context that the task runs in. No other code may be running in it.

    Returns:
        The task.
    """
    if sys.version_info >= (3, 12):
        return asyncio.Task(work, loop=loop, context=context, eager_start=True)
    return _start_eagerly_on_3_11(work, loop, context)


def _start_eagerly_on_3_11(
    work: Coroutine[Any, Any, T], loop: Any, context: Context
) -> asyncio.Task[T]:
    """Take the first step of an ordinary task, which Python 3.11 leaves to the loop.

    A task schedules its first step with its loop's `call_soon`, which is replaced for that moment by a
    function that keeps the step. While the step runs, the task has to be the current task instead of the
    task around it: `_enter_task` and `_leave_task` are documented for that, in "Extending asyncio"
    (https://docs.python.org/3/library/asyncio-extending.html).
    """
    steps: list[Callable[[], None]] = []
    before, replaced = loop.call_soon, vars(loop).get("call_soon")

    def keep(step: Any, *args: Any, **given: Any) -> Any:
        owner = getattr(step, "__self__", None)
        if not isinstance(owner, asyncio.Task) or owner.get_coro() is not work:
            return before(step, *args, **given)  # a finalizer's, of what is collected meanwhile
        return steps.append(step)

    loop.call_soon = keep
    try:
        task = asyncio.Task(work, loop=loop, context=context)
    finally:
        del loop.call_soon
        if replaced is not None:
            loop.call_soon = replaced
    around = asyncio.current_task(loop)
    if around is not None:
        _leave_task(loop, around)
    try:
        context.run(steps[0])
    finally:
        if around is not None:
            _enter_task(loop, around)
    return task


async def side_by_side(*work: Coroutine[Any, Any, T]) -> list[T]:
    """Run coroutines concurrently and wait for all of them.

    Args:
        *work: The coroutines.

    Returns:
        The results, in the order given.

    Raises:
        BaseException: The first exception of a coroutine. The others are cancelled and have ended.

    Example:
        >>> asyncio.run(side_by_side(asyncio.sleep(0, "one"), asyncio.sleep(0, "two")))
        ['one', 'two']
    """
    if len(work) == 1:  # a task would gain nothing
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
                one.close()  # never awaited, if its task was cancelled before it began
            if task.done() and not task.cancelled():
                task.exception()  # retrieved: only the first one is raised


class _Carrier(Exception):  # noqa: N818  never seen outside
    """Carries a `BaseException` out of a task: a `SystemExit` itself would stop the event loop."""

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
        BaseException: Any other exception of the function.
    """

    def call() -> T:
        try:
            return fn(*args)
        except StopIteration as error:
            raise RuntimeError(f"{getattr(fn, '__name__', fn)} raised StopIteration") from error

    return await asyncio.to_thread(call)


def report(message: str, error: BaseException | None) -> None:
    """Hand an error that is not awaited to the loop's exception handler, which logs it."""
    context: dict[str, Any] = {"message": message}
    if error is not None:
        context["exception"] = error
    asyncio.get_running_loop().call_exception_handler(context)
