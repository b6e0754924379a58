"""Where pull meets push: async iterators to observables, and back, with demand.

reactivex has neither async iteration nor backpressure, and asyncio has no observables. This module
(with the pump it reads with) is the only place where the two touch:

- `from_async_iterable` pulls an async iterator in a task and pushes its items to an observer;
  `from_coroutine` does so with the one thing that a coroutine returns.
- `Subscription` and `iterate` subscribe to an observable and let a coroutine wait for it.

Each subscription has a `Scope`, which owns the tasks it started, so that whoever subscribed can wait
until each of them has ended, and the `Demand` they share: while anybody downstream holds it, the
sources upstream are not read.

What crosses, crosses unchanged: an exception arrives as the same object, and cancellation is never
turned into an error. Everything runs on the event loop of the subscriber: no thread, no scheduler.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar, overload

from aiostream import operator, streamcontext
from reactivex import Observable
from reactivex.disposable import Disposable

from streamval.pump import Pump, cancelled_from_inside
from streamval.scope import BUFFER, Demand, Inbox, Scope, report, scope

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable

    from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase

T = TypeVar("T")
U = TypeVar("U")


@overload
def from_async_iterable(
    source: Callable[[], AsyncIterable[T]],
    *,
    stall_timeout: float | None = None,
    owner: Scope | None = None,
) -> Observable[T]: ...
@overload
def from_async_iterable(
    source: Callable[[], AsyncIterable[T]],
    *,
    each: Callable[[T], Iterable[U]],
    last: Callable[[], Iterable[U]] | None = None,
    stall_timeout: float | None = None,
    owner: Scope | None = None,
) -> Observable[U]: ...
def from_async_iterable(
    source: Callable[[], AsyncIterable[Any]],
    *,
    each: Callable[[Any], Iterable[Any]] | None = None,
    last: Callable[[], Iterable[Any]] | None = None,
    stall_timeout: float | None = None,
    owner: Scope | None = None,
) -> Observable[Any]:
    """The items of an async iterable as a cold observable.

    Each subscription calls `source` and reads it in a task of its own, in order, never faster
    than the `Demand` around allows. Disposing closes the iterator; to wait until it is closed,
    subscribe through `Subscription` or `iterate`.

    Args:
        source: Makes the iterable, anew for each subscription.
        each: Makes of each item those that are pushed for it, none or many: what an operator
            would do at several times the price, for what runs once a token.
        last: Makes those that are pushed once the source has ended.
        stall_timeout: Seconds without an item before the observable fails. Time during which
            somebody downstream holds the demand does not count. `None` for never.
        owner: The scope that owns the reading task, where it is not the one around at the time
            of subscribing.

    Returns:
        An observable. An exception of the source arrives at `on_error` as it is; so does one
        that an observer raised in `on_next`, after the source was closed.

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
        observer: ObserverBase[Any],
        scheduler: SchedulerBase | None = None,  # noqa: ARG001  reactivex passes it
    ) -> DisposableBase:
        with scope() if owner is None else owner.current() as current:
            pump = Pump(source, each, last, observer, current, stall_timeout)
            pump.start()
        return Disposable(pump.stop)

    return Observable(subscribe)


def from_coroutine(
    work: Callable[[], Coroutine[Any, Any, T]], *, owner: Scope | None = None
) -> Observable[T]:
    """What a coroutine returns, as a cold observable of one item.

    Args:
        work: Makes the coroutine, anew for each subscription, which runs it in a task of its own.
        owner: As for `from_async_iterable`.

    Returns:
        An observable. What the coroutine raises arrives at `on_error` as it is; disposing cancels
        it.

    Example:
        >>> async def answer():
        ...     return 42
        >>> async def main():
        ...     return [number async for number in iterate(from_coroutine(answer))]
        >>> asyncio.run(main())
        [42]
    """

    def subscribe(
        observer: ObserverBase[T],
        scheduler: SchedulerBase | None = None,  # noqa: ARG001  reactivex passes it
    ) -> DisposableBase:
        async def run() -> None:
            try:
                result = await work()
            except asyncio.CancelledError:
                me = asyncio.current_task()
                if me is None or not current.has_cancelled(me):
                    observer.on_error(cancelled_from_inside())
            except Exception as error:  # noqa: BLE001  whatever it raises is the observer's
                observer.on_error(error)
            else:
                observer.on_next(result)
                observer.on_completed()

        with scope() if owner is None else owner.current() as current:
            task = current.spawn(run())
        return Disposable(lambda: current.cancel(task))

    return Observable(subscribe)


class Subscription:
    """A subscription that a coroutine waits for.

    Used as an async context manager; leaving it disposes of the subscription and returns only
    when every task behind it has ended, every source closed.

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
        self,
        observable: Observable[T],
        on_next: Callable[[T], None],
        demand: Demand | None = None,
    ) -> None:
        self._observable = observable
        self._on_next = on_next
        self._scope = Scope(demand, self._failed)
        self._disposable: DisposableBase | None = None

    async def __aenter__(self) -> Subscription:
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._scope.current():
            self._disposable = self._observable.subscribe(
                self._on_next, self._failed, self._completed
            )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._disposable is not None:
            self._disposable.dispose()
            self._disposable = None
        if self._end.done():
            self._end.exception()  # seen, so that the loop does not report it as forgotten
        else:
            self._end.cancel()
        await self._scope.aclose()

    @property
    def ended(self) -> bool:
        """Whether the observable has completed or failed."""
        return self._end.done()

    def error(self) -> Exception | None:
        """What the observable failed with, if it has."""
        if not self._end.done() or self._end.cancelled():
            return None
        failure = self._end.exception()
        return failure if isinstance(failure, Exception) else None

    def when_ended(self, callback: Callable[[], None]) -> None:
        """Call back once it has."""
        self._end.add_done_callback(lambda _: callback())

    async def completed(self) -> None:
        """Wait until the observable has completed; raises what it failed with."""
        await asyncio.shield(self._end)  # cancelled, there is still an error to be seen

    def _completed(self) -> None:
        if not self._end.done():
            self._end.set_result(None)

    def _failed(self, error: Exception) -> None:
        if self._end.done():
            report("An observable failed after it had ended", error)
        else:
            self._end.set_exception(error)


async def iterate(observable: Observable[T], *, buffer: int = BUFFER) -> AsyncIterator[T]:
    """The items of an observable, one at a time.

    At most `buffer` items wait; then the sources behind the observable are held back. Closing
    the iterator (as `async with to_stream(...).stream()` does) closes them before it returns.

    Args:
        observable: What to subscribe to, once.
        buffer: Items that may wait before the sources are held.

    Yields:
        The items, in order.

    Raises:
        Exception: Whatever the observable fails with, after the items before it.
    """
    demand = Demand()
    inbox: Inbox[T] = Inbox(demand, buffer)
    async with Subscription(observable, inbox.put, demand) as subscription:
        subscription.when_ended(inbox.close)
        async for item in inbox:
            yield item
        await subscription.completed()


@operator
async def to_stream(observable: Observable[T], *, buffer: int = BUFFER) -> AsyncIterator[T]:
    """An observable as an aiostream `Stream`: each iteration subscribes anew.

    Args:
        observable: What to subscribe to.
        buffer: Items that may wait before the sources are held.

    Yields:
        The items, in order.
    """
    async with streamcontext(iterate(observable, buffer=buffer)) as items:
        async for item in items:
            yield item
