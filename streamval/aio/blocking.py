"""Runs async code from sync code, on an event loop in its own thread.

`asyncio.run` cannot be used where a loop runs already, as in Jupyter, and a loop made for each call
would leave a backend's connections on a closed loop. So all sync calls share one loop.
"""

from __future__ import annotations

import asyncio
import atexit
import inspect
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from threading import Event, Lock, Thread, current_thread
from typing import Any, TypeVar, cast

from streamval.aio.tasks import CLOSING_GRACE
from streamval.errors import RunError

T = TypeVar("T")


def wait_for(make: Callable[[], Awaitable[T]]) -> T:
    """Run async code on the shared loop, and wait for its result.

    An exception arrives as it is. Interrupting the wait (Ctrl-C) cancels the work, waits up to
    `CLOSING_GRACE` seconds for its clean-up, and raises.

    Args:
        make: Called on the loop; returns the awaitable.

    Raises:
        RunError: If it is called on the shared loop, which would then wait for itself.

    Example:
        >>> wait_for(lambda: asyncio.sleep(0, "done"))
        'done'
    """
    loop, thread = _shared_loop()
    if current_thread() is thread:
        raise RunError(
            "a sync call cannot run inside another sync call; await the async method instead"
        )
    ended = Event()
    given_up = False
    task: asyncio.Task[Any] | None = None

    async def work() -> tuple[T | None, BaseException | None]:
        nonlocal task
        task = asyncio.current_task()
        try:
            if given_up:
                raise asyncio.CancelledError
            return await make(), None
        except (SystemExit, KeyboardInterrupt) as error:  # raised here, it would stop the loop
            return None, error
        finally:
            ended.set()

    def give_up() -> None:
        nonlocal given_up
        given_up = True
        if task is not None:
            task.cancel()

    try:
        result, error = asyncio.run_coroutine_threadsafe(work(), loop).result()
    except BaseException:
        if not ended.is_set():  # interrupted, perhaps before the future was returned
            loop.call_soon_threadsafe(give_up)
            ended.wait(CLOSING_GRACE)
        raise
    if error is not None:
        raise error
    return cast("T", result)


def iterate_blocking(make: Callable[[], AsyncGenerator[T]]) -> Iterator[T]:
    """Yield the items of an async generator, which runs on the shared loop, as they come.

    Leaving early closes the generator. It is asked for the next item only when that is wanted.

    Args:
        make: Returns the generator.

    Raises:
        RunError: As `wait_for`.

    Example:
        >>> async def count():
        ...     for number in (1, 2):
        ...         yield number
        >>> list(iterate_blocking(count))
        [1, 2]
    """
    items = make()
    try:
        while True:
            item = wait_for(lambda: anext(items, _END))
            if item is _END:
                return
            yield cast("T", item)
    finally:
        wait_for(items.aclose)


_END: Any = object()


async def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function, sync or async, and wait for its result.

    On the shared loop a sync function runs in its own thread, so that it may make sync calls
    itself; elsewhere it is called directly.
    """
    on_shared_loop = any(thread is current_thread() for _, thread in _shared)
    in_thread = on_shared_loop and not inspect.iscoroutinefunction(function)
    if in_thread:
        # A new thread, because nested calls could use up the threads of a pool.
        executor = ThreadPoolExecutor(1)
        work = partial(copy_context().run, function, *args, **kwargs)
        try:
            answer = await asyncio.get_running_loop().run_in_executor(executor, work)
        finally:
            executor.shutdown(wait=False)
    else:
        answer = function(*args, **kwargs)
    return await answer if inspect.isawaitable(answer) else answer


_lock = Lock()
_shared: list[tuple[asyncio.AbstractEventLoop, Thread]] = []


def _shared_loop() -> tuple[asyncio.AbstractEventLoop, Thread]:
    with _lock:
        if not _shared:
            loop = asyncio.new_event_loop()
            thread = Thread(target=loop.run_forever, name="streamval", daemon=True)
            thread.start()
            _shared.append((loop, thread))
        return _shared[0]


def _forget() -> None:
    """Drop the loop in the child of a fork, where its thread is gone: the next sync call makes another."""
    global _lock  # noqa: PLW0603  another thread may have held it
    _lock = Lock()
    _shared.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


@atexit.register
def _close() -> None:
    for loop, thread in _shared:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
