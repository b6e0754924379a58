"""Converts async iterators to observables and back, with backpressure.

reactivex has neither async iteration nor backpressure, and asyncio has no observables. This module
is the only place where the two touch:

- `from_async_iterable` reads an async iterator in a task and pushes its items to an observer.
  `from_coroutine` does the same with the value that a coroutine returns.
- `Subscription`, `to_stream` and `iterate` subscribe to an observable and let a coroutine wait for it.
- `as_async_iterable` accepts either where an async iterable is wanted.
- `on_loop` puts an observable of reactivex on the running loop, with all that is piped behind it.

Each subscription has a `Scope`, which owns the tasks that it started, so that the subscriber can
wait until each of them has ended. The tasks share a `Gate`: while something downstream has paused
it, the sources upstream are not read.

Exceptions arrive as the same objects. A cancellation by the subscriber is never
turned into an error. Everything runs on the event loop of the subscriber, time operators too (`streamval.aio.on_loop`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from aiostream import Stream, operator
from reactivex import Observable
from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase
from reactivex.disposable import Disposable

from streamval.aio.gate import Gate
from streamval.aio.inbox import BUFFER, Inbox
from streamval.aio.on_loop import Crossing, Direct, at_home, loop_scheduler, on_loop
from streamval.aio.pump import Pump, Receiver, cancelled_from_inside
from streamval.aio.scope import Scope, scope
from streamval.aio.tasks import report

__all__ = [
    "Subscription",
    "as_async_iterable",
    "from_async_iterable",
    "from_coroutine",
    "iterate",
    "on_loop",
    "to_stream",
]

T = TypeVar("T")


def from_async_iterable(
    source: Callable[[], AsyncIterable[Any]],
    *,
    read: Callable[[Any], T | None] | None = None,
    stall_timeout: float | None = None,
    on_closed: Callable[[BaseException | None], None] | None = None,
) -> Observable[T]:
    """Return the items of an async iterable as a cold observable.

    Each subscription calls `source` and reads it in a task of its own, in order, never faster
    than the current `Gate` allows. Disposing closes the iterator. To wait until it is closed,
    subscribe through `Subscription` or `iterate`.

    Args:
        source: Makes the iterable, anew for each subscription; it may be a `Stream` of aiostream, or an observable.
        read: Converts each item before it is pushed; `None` drops the item. Costs a third of a `map`
            and a `filter`, which matters once a token.
        stall_timeout: Seconds without an item before the observable fails. Time during which
            something downstream has paused the gate does not count. `None` for never.
        on_closed: Called once the iterator is closed, whatever ended it, and before the observable
            ends (a stall ends it first); with the exception that the source itself raised, or the stall.

    Returns:
        An observable. An exception of the source arrives at `on_error` as it is. So does an
        exception that an observer raised in `on_next`, after the source was closed.

    Example:
        >>> async def letters():
        ...     yield "a"
        ...     yield "b"
        >>> async def main():
        ...     return [letter async for letter in iterate(from_async_iterable(letters))]
        >>> asyncio.run(main())
        ['a', 'b']
    """

    def subscribe(
        observer: ObserverBase[Any], scheduler: SchedulerBase | None = None
    ) -> DisposableBase:
        receiver = Receiver(observer.on_next, observer.on_error, observer.on_completed)
        with scope() as current:
            opened = partial(_opened, source)
            pump = Pump(opened, read, receiver, current, stall_timeout, on_closed)
            pump.start()
        close = at_home(pump.close)

        def dispose() -> None:
            pump.stop()
            close()

        return Disposable(dispose)

    return Direct(subscribe)


def _opened(source: Callable[[], AsyncIterable[Any]]) -> AsyncIterable[Any]:
    opened: AsyncIterable[Any] = as_async_iterable(source())
    return opened


def as_async_iterable(source: Any) -> Any:
    """Return an observable or a `Stream` of aiostream as an async iterator; anything else as it is."""
    if isinstance(source, Observable):
        return iterate(source)
    return _items_of(source) if isinstance(source, Stream) else source


async def _items_of(stream: Stream[T]) -> AsyncIterator[T]:
    async with stream.stream() as items:  # which warns where it is iterated without this
        async for item in items:
            yield item


def from_coroutine(work: Callable[[], Coroutine[Any, Any, T]]) -> Observable[T]:
    """Return the result of a coroutine as a cold observable of one item.

    Args:
        work: Makes the coroutine. Called for each subscription, which runs it in its own task.

    Returns:
        An observable. An exception of the coroutine arrives at `on_error` as it is. Disposing cancels
        the task.

    Example:
        >>> async def answer():
        ...     return 42
        >>> async def main():
        ...     return [number async for number in iterate(from_coroutine(answer))]
        >>> asyncio.run(main())
        [42]
    """

    def subscribe(
        observer: ObserverBase[T], scheduler: SchedulerBase | None = None
    ) -> DisposableBase:
        failed: Callable[[Any], None] = observer.on_error

        async def run() -> None:
            me = asyncio.current_task()
            assert me is not None
            try:
                result = await work()
            except BaseException as error:  # the observer reports it
                cancelled = isinstance(error, asyncio.CancelledError)
                if not current.has_cancelled(me):
                    failed(cancelled_from_inside() if cancelled else error)
                elif not cancelled:
                    report("A coroutine raised while it was being cancelled", error)
                return
            if current.has_cancelled(me):
                return
            try:
                observer.on_next(result)
                observer.on_completed()
            except (SystemExit, KeyboardInterrupt) as error:
                current.crashed(error)

        with scope() as current:
            task = current.spawn(run())
        return Disposable(at_home(lambda: current.cancel(task)))

    return Direct(subscribe)


class Subscription:
    """A subscription that a coroutine waits for.

    Time operators in the observable run on the loop. Items that come from other threads are taken on the loop, and
    wake it.

    It is an async context manager. Leaving it disposes of the subscription, and returns only when
    every task behind it has ended and every source is closed.

    Args:
        observable: What to subscribe to.
        on_next: Called with each item.
        gate: Pauses the sources behind the observable.

    Attributes:
        ended: Whether the observable has completed or failed, or this was left.

    Example:
        >>> import reactivex
        >>> async def main():
        ...     async with Subscription(reactivex.of(1, 2), print) as subscription:
        ...         await subscription.completed()
        >>> asyncio.run(main())
        1
        2
    """

    def __init__(
        self, observable: Observable[T], on_next: Callable[[T], None], gate: Gate | None = None
    ) -> None:
        self._observable = observable
        self._on_next = on_next
        self._scope = Scope(gate, self._failed)
        self._disposable: DisposableBase | None = None
        self._crossing: Crossing | None = None
        self._error: BaseException | None = None
        self._waiting: list[Callable[[], object]] = []
        self.ended = False

    async def __aenter__(self) -> Subscription:
        self._loop = asyncio.get_running_loop()
        calls: list[Callable[..., None]] = [self._on_next, self._failed, self._completed]
        scheduler = None
        if not isinstance(self._observable, Direct):
            self._crossing = Crossing(self.end)
            calls, scheduler = list(map(self._crossing.over, calls)), loop_scheduler()
        with self._scope.current():
            self._disposable = self._observable.subscribe(*calls, scheduler=scheduler)
        del self._observable, self._on_next  # they may refer to this object: a reference cycle
        return self

    def dispose(self) -> None:
        """Unsubscribe at once; leaving the context manager waits until all is closed."""
        if self._disposable is not None:
            self._disposable.dispose()
            self._disposable = None
            if self._crossing is not None:
                self._crossing.close()
                self._crossing = None  # it refers to this object: a reference cycle

    async def __aexit__(self, *_: object) -> None:
        self.dispose()
        self._end(None)
        await self._scope.aclose()

    def end(self, error: BaseException | None = None) -> None:
        """End it as if the observable had completed, or failed with `error`, and unsubscribe."""
        self.dispose()
        if error is None:
            self._completed()
        else:
            self._failed(error)

    def inside(self, call: Callable[..., None]) -> Callable[..., None]:
        """Return a function that runs in the scope of this subscription: to push items from outside."""
        return self._scope.inside(call)

    def error(self) -> BaseException | None:
        """Return the error that the observable failed with, if it has."""
        return self._error

    def when_ended(self, callback: Callable[[], object]) -> None:
        """Call back in the next turn of the loop, once the observable has completed or failed."""
        if self.ended:
            self._loop.call_soon(callback)
        else:
            self._waiting.append(callback)

    async def completed(self) -> None:
        """Wait until the observable has completed. Raise the error that it failed with."""
        if not self.ended:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiting.append(partial(_wake, waiter))
            await waiter
        if self._error is not None:
            raise self._error

    def _completed(self) -> None:
        self._end(None)

    def _failed(self, error: BaseException) -> None:
        if self.ended:
            report("An observable failed after it had ended", error)
        elif isinstance(error, StopIteration):  # a coroutine cannot raise it
            self._end(RuntimeError("something raised StopIteration"))
        else:
            self._end(error)

    def _end(self, error: BaseException | None) -> None:
        if not self.ended:
            self.ended, self._error = True, error
            waiting, self._waiting = self._waiting, []
            for callback in waiting:
                self._loop.call_soon(callback)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


@operator
async def to_stream(observable: Observable[T], *, buffer: int = BUFFER) -> AsyncGenerator[T]:
    """Yield an observable as an aiostream `Stream`: each iteration subscribes anew.

    At most `buffer` items wait. Then the sources behind the observable are paused. Leaving
    ``async with to_stream(…).stream()`` closes them before it returns.

    Args:
        observable: What to subscribe to.
        buffer: Items that may wait before the sources are paused.

    Yields:
        The items, in order.

    Raises:
        BaseException: The error of the observable, after the items before it.
    """
    gate = Gate()
    inbox: Inbox[T] = Inbox(gate, buffer)
    async with Subscription(observable, inbox.put, gate) as subscription:
        subscription.when_ended(inbox.close)
        async for item in inbox:
            yield item
        await subscription.completed()


def iterate(observable: Observable[T], *, buffer: int = BUFFER) -> AsyncGenerator[T]:
    """Return an async generator of the items of an observable; see `to_stream`, whose inside it is."""
    items: Any = to_stream.raw(observable, buffer=buffer)
    return items  # type: ignore[no-any-return]
