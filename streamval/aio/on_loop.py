"""Observables whose time operators run on the event loop, and not on threads of reactivex."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import ContextVar
from datetime import datetime, timedelta
from inspect import iscoroutinefunction
from threading import get_ident
from typing import Any, TypeVar

from reactivex import Observable
from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase
from reactivex.scheduler.eventloop import AsyncIOScheduler

from streamval.aio.tasks import loop_or_none
from streamval.errors import UsageError

is_awaited: ContextVar[bool] = ContextVar("streamval_is_awaited", default=False)
"""Whether an observable is being subscribed to by ``await``, which waits for its end."""

T = TypeVar("T")


class LoopScheduler(AsyncIOScheduler):
    """A scheduler whose clock is the loop's, like its timers. That of `AsyncIOScheduler` is the wall's."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._began = super().now - timedelta(seconds=loop.time())

    @property
    def now(self) -> datetime:
        """The time of the loop, from the wall's clock when this was made."""
        return self._began + timedelta(seconds=self._loop.time())


def loop_scheduler() -> SchedulerBase | None:
    """Return a scheduler of the running event loop; `None` where none is running."""
    loop = loop_or_none()
    return None if loop is None else LoopScheduler(loop)


def called_on_loop(call: Callable[..., None]) -> Callable[..., None]:
    """Return a function that calls `call` on the loop that runs here, from whichever thread it is called.

    A call from another thread wakes the loop. Where no loop is running, `call` is returned as it is.
    """
    loop, home = loop_or_none(), get_ident()
    if loop is None:
        return call

    def called(*items: Any) -> None:
        if get_ident() == home:
            call(*items)
        else:
            loop.call_soon_threadsafe(call, *items)

    return called


class OnLoop(Observable[T]):
    """An observable that is subscribed to with the running loop's scheduler, unless another is given.

    Operators that are piped behind it are on the loop as well: `delay`, `sample`, `timeout`, `debounce`,
    `buffer_with_time` and others take the scheduler of the subscription, and start a thread without one.

    Args:
        subscribe: As for an `Observable`.

    Example:
        >>> import threading
        >>> from reactivex import operators as ops, of
        >>> async def main():
        ...     seen = []
        ...     late = on_loop(of(1, 2)).pipe(ops.delay(0.01))
        ...     late.subscribe(lambda item: seen.append((item, threading.current_thread().name)))
        ...     await asyncio.sleep(0.1)
        ...     return seen
        >>> asyncio.run(main())
        [(1, 'MainThread'), (2, 'MainThread')]
    """

    def __init__(
        self, subscribe: Callable[[ObserverBase[T], SchedulerBase | None], DisposableBase]
    ) -> None:
        super().__init__(subscribe)

    def _subscribe_core(
        self, observer: ObserverBase[T], scheduler: SchedulerBase | None = None
    ) -> DisposableBase:
        return super()._subscribe_core(observer, scheduler or loop_scheduler())

    def subscribe(self, on_next: Any = None, *more: Any, **named: Any) -> DisposableBase:
        """Subscribe, as to any observable.

        Raises:
            UsageError: If `on_next` is a coroutine function: an observable does not await it.
        """
        if iscoroutinefunction(on_next) or iscoroutinefunction(getattr(on_next, "on_next", None)):
            raise UsageError(
                "on_next is a coroutine function, which an observable does not await; use "
                "run.subscribe(…), or `async for item in bridge.iterate(observable)`"
            )
        return super().subscribe(on_next, *more, **named)

    def __await__(self) -> Generator[Any, None, T]:
        token = is_awaited.set(True)
        try:
            return super().__await__()
        finally:
            is_awaited.reset(token)

    def pipe(self, *operators: Callable[[Any], Any]) -> Any:
        """Compose operators, each of which is on the loop."""
        made: Any = self
        for operator in operators:
            made = on_loop(operator(made))
        return made


def on_loop(observable: Any) -> Any:
    """Return an observable that is on the loop. What is not a plain `Observable` stays as it is."""
    if type(observable) is not Observable:  # a ConnectableObservable, say, has methods of its own
        return observable
    return OnLoop(observable._subscribe_core)  # noqa: SLF001  no second observer an item
