"""Runs a blocking call in a daemon thread, which delays neither cancellation nor process exit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


async def in_daemon(call: Callable[[], T]) -> T:
    """Call a function in a daemon thread.

    `asyncio.to_thread` joins its threads when the loop ends: a thread that reads from a silent pipe would
    keep the process from ending.

    Args:
        call: The function. It may block for ever. Its result after a cancellation is dropped.

    Returns:
        The function's result.

    Raises:
        Exception: The function's exception.

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
            outcome: tuple[Callable[[Any], None], object] = (answer.set_exception, error)
        else:
            outcome = (answer.set_result, result)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, *outcome)

    Thread(target=work, name="streamval-daemon", daemon=True).start()
    return await answer
