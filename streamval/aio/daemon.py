"""A blocking call in a thread that nothing waits for: not its caller, if it is cancelled, nor the end of the process."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


async def in_daemon(call: Callable[[], T]) -> T:
    """Call it in a thread of its own.

    `asyncio.to_thread` has its threads joined when the loop ends: one that reads from a pipe that says nothing would
    keep the process from ending.

    Args:
        call: May block for ever. What it returns after a cancellation is dropped.

    Returns:
        What it returns.

    Raises:
        Exception: What it raises.

    Example:
        >>> asyncio.run(in_daemon(lambda: 6 * 7))
        42
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(how: Callable[[Any], None], what: object) -> None:
        if not answer.done():
            how(what)

    def work() -> None:
        try:
            result = call()
        except BaseException as error:
            told: tuple[Callable[[Any], None], object] = (answer.set_exception, error)
        else:
            told = (answer.set_result, result)
        with suppress(RuntimeError):  # the loop has gone
            loop.call_soon_threadsafe(settle, *told)

    Thread(target=work, name="streamval-daemon", daemon=True).start()
    return await answer
