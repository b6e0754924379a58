"""Where pull meets push: async iterators to observables, and back, with demand.

reactivex has neither async iteration nor backpressure, and asyncio has no observables. This module
is the only place where the two touch:

- `from_async_iterable` pulls an async iterator in a task and pushes its items to an observer.
- `Subscription` and `iterate` subscribe to an observable and let a coroutine wait for it.
- `Scope` owns the tasks that one subscription started, so that whoever subscribed can wait until
  each of them has ended, and the `Demand` they share: while anybody downstream holds it, the
  sources upstream are not read.

What crosses, crosses unchanged: an exception arrives as the same object, and cancellation is never
turned into an error. Everything runs on the event loop of the subscriber: no thread, no scheduler.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import contextmanager
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any, TypeVar, overload

from aiostream import operator, streamcontext
from reactivex import Observable
from reactivex.disposable import Disposable

from streamval.errors import RunError, StallError, StreamBrokenError

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterator

    from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase

T = TypeVar("T")
U = TypeVar("U")

CLOSING_GRACE = 5.0
"""Seconds a cancelled task may take to end. One that ignores its cancellation for longer is
reported to the loop's exception handler and left behind, so that closing never hangs."""

FAIR_SHARE = 256
"""Items that a source which never waits may push before every other task gets a turn."""

STALL_STEPS = 16
"""How often within a `stall_timeout` it is looked whether an item has come."""

BUFFER = 64
"""Items that wait for a slow consumer before it holds the source back."""


class Demand:
    """A gate between what reads a source and what cannot keep up with it.

    Open while nobody holds it. Each `hold` needs its own `release`.

    Attributes:
        busy: True while a reader has to wait: a plain attribute, as it is read for every delta.
    """

    __slots__ = ("_holds", "_waiters", "busy")

    def __init__(self) -> None:
        self.busy = False
        self._holds = 0
        self._waiters: list[asyncio.Future[None]] = []

    def hold(self) -> None:
        """Stop readers before their next item."""
        self._holds += 1
        self.busy = True

    def release(self) -> None:
        """Take back one `hold`; the last one lets the readers go on."""
        self._holds -= 1
        if not self._holds:
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters.clear()

    def yield_turn(self) -> None:
        """Let every task that is ready run once before the next item is read.

        A source that never has to wait would otherwise run far ahead of verdicts that are
        already there for the taking.
        """
        self.busy = True

    async def ready(self) -> None:
        """Wait until nobody holds the gate, and at least for one turn of the loop."""
        await asyncio.sleep(0)
        while self._holds:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        self.busy = False


class Scope:
    """The tasks of one subscription, and the demand they share.

    A task started inside the scope inherits it, so that what an operator subscribes to later
    belongs to it as well.
    """

    def __init__(
        self, demand: Demand | None = None, on_crash: Callable[[Exception], None] | None = None
    ) -> None:
        self.demand = demand or Demand()
        self._on_crash = on_crash
        self._tasks: set[asyncio.Task[None]] = set()
        self._cancelled: set[asyncio.Task[None]] = set()
        self._closed = False

    def spawn(
        self, work: Coroutine[Any, Any, None], *, context: Context | None = None
    ) -> asyncio.Task[None]:
        """Run `work` in a task of this scope, in a context of its own unless given one.

        Raises:
            RunError: If there is no running event loop, or the scope has been closed.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            work.close()
            message = (
                "there is no running event loop; subscribe inside one, as in asyncio.run(main())"
            )
            raise RunError(message) from None
        if self._closed:
            work.close()
            message = "the subscription has ended; nothing new can be started in it"
            raise RunError(message)
        task = loop.create_task(work, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def cancel(self, task: asyncio.Task[None]) -> None:
        """Cancel a task of this scope, once: a second time would interrupt its clean-up."""
        if task not in self._cancelled and not task.done():
            self._cancelled.add(task)
            task.cancel()

    def spare(self, task: asyncio.Task[None]) -> None:
        """Let a task end by itself: it has begun its clean-up, which nothing may interrupt."""
        self._cancelled.add(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._cancelled.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if self._on_crash is not None and isinstance(error, Exception):
            self._on_crash(error)
        else:
            report("A task of an observable ended with an exception nobody handles", error)

    @contextmanager
    def current(self) -> Iterator[Scope]:
        """Make this the scope of whatever is subscribed to inside the block."""
        token = _scope.set(self)
        try:
            yield self
        finally:
            _scope.reset(token)

    async def aclose(self) -> None:
        """Cancel what still runs and wait until all of it has ended.

        A cancellation that arrives meanwhile is kept until then, so that neither the clean-up nor
        the cancellation is lost.
        """
        self._closed = True
        me = asyncio.current_task()
        for task in self._tasks - {me}:
            self.cancel(task)
        interrupted: asyncio.CancelledError | None = None
        loop = asyncio.get_running_loop()
        deadline = loop.time() + CLOSING_GRACE
        while pending := {task for task in self._tasks if task is not me}:
            left = deadline - loop.time()
            if left <= 0:
                for task in pending:
                    report(f"{task!r} ignores its cancellation and was left behind", None)
                break
            try:
                await asyncio.wait(pending, timeout=left)
            except asyncio.CancelledError as cancelled:
                interrupted = cancelled
        if interrupted is not None:
            raise interrupted


_scope: ContextVar[Scope | None] = ContextVar("streamval_scope", default=None)


@contextmanager
def scope() -> Iterator[Scope]:
    """The scope around, or a new one, current inside the block: for operators that hold tasks."""
    with (_scope.get() or Scope()).current() as current:
        yield current


def report(message: str, error: BaseException | None) -> None:
    """Hand something that nobody awaits to the loop's exception handler, which logs it."""
    context: dict[str, Any] = {"message": message}
    if error is not None:
        context["exception"] = error
    asyncio.get_running_loop().call_exception_handler(context)


@overload
def from_async_iterable(
    source: Callable[[], AsyncIterable[T]], *, stall_timeout: float | None = None
) -> Observable[T]: ...
@overload
def from_async_iterable(
    source: Callable[[], AsyncIterable[T]],
    *,
    each: Callable[[T], U],
    stall_timeout: float | None = None,
) -> Observable[U]: ...
def from_async_iterable(
    source: Callable[[], AsyncIterable[Any]],
    *,
    each: Callable[[Any], Any] | None = None,
    stall_timeout: float | None = None,
) -> Observable[Any]:
    """The items of an async iterable as a cold observable.

    Each subscription calls `source` and reads it in a task of its own, in order, never faster
    than the `Demand` around allows. Disposing closes the iterator; to wait until it is closed,
    subscribe through `Subscription` or `iterate`.

    Args:
        source: Makes the iterable, anew for each subscription.
        each: Applied to each item on the way: `ops.map` at half the price, for what runs once a
            token.
        stall_timeout: Seconds without an item before the observable fails. Time during which
            somebody downstream holds the demand does not count. `None` for never.

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
        with scope() as current:
            pump = _Pump(source, each, observer, current, stall_timeout)
            pump.task = current.spawn(pump.run())
        return Disposable(pump.stop)

    return Observable(subscribe)


class _Pump:
    """Reads one iterator into one observer."""

    task: asyncio.Task[None]

    def __init__(
        self,
        source: Callable[[], AsyncIterable[Any]],
        each: Callable[[Any], Any] | None,
        observer: ObserverBase[Any],
        scope: Scope,
        stall_timeout: float | None,
    ) -> None:
        self._source = source
        self._each = each
        self._observer = observer
        self._scope = scope
        self._demand = scope.demand
        self._stall_timeout = stall_timeout
        self._stopped = False
        self._stalled = False
        self._quiet = True

    def stop(self) -> None:
        if self._stopped:
            return
        self._stopped = True
        # Stopped from inside on_next, the pump sees the flag; cancelling itself would only
        # take effect wherever it next waits, perhaps while it cleans up.
        if asyncio.current_task(self.task.get_loop()) is not self.task:
            self._scope.cancel(self.task)

    async def run(self) -> None:
        watch = None if self._stall_timeout is None else self._watch(self._stall_timeout)
        try:
            failure = await self._read()
        except asyncio.CancelledError:
            if self._stalled and not self._stopped:
                message = (
                    f"no delta for {self._stall_timeout:g} seconds; the backend hangs, or needs "
                    "a longer stall_timeout"
                )
                self._observer.on_error(StallError(message))
                return
            if self._stopped or self.task.cancelling():
                raise
            message = "the source was cancelled from inside, not by whoever reads it"
            self._observer.on_error(StreamBrokenError(message))
        except Exception as error:  # noqa: BLE001  whatever the source raises is the observer's
            if self._stopped:
                report("A source raised while it was being closed", error)
            else:
                self._observer.on_error(error)
        else:
            if failure is not None:
                self._observer.on_error(failure)
            elif not self._stopped:
                self._observer.on_completed()
        finally:
            if watch is not None:
                watch()

    async def _read(self) -> Exception | None:
        """Push items until the source ends, the observer raises, or the pump is stopped."""
        on_next, each, demand = self._observer.on_next, self._each, self._demand
        iterator = aiter(self._source())
        unbroken = 0
        # The context guarantees the close. The loop reads the iterator itself, as going through
        # the context would cost a microsecond for every delta.
        async with streamcontext(iterator):
            async for item in iterator:
                self._quiet = False
                try:
                    on_next(item if each is None else each(item))
                except Exception as error:  # noqa: BLE001  must not be thrown into the source
                    self._scope.spare(self.task)
                    return error
                if self._stopped:
                    self._scope.spare(self.task)
                    break
                unbroken += 1
                if demand.busy or unbroken == FAIR_SHARE:
                    unbroken = 0
                    await demand.ready()
        return None

    def _watch(self, timeout: float) -> Callable[[], None]:
        """Cancel the pump once nothing has come for so long; returns how to stop watching.

        The pump only clears a flag for each item, and the watch looks at it a few times within
        the timeout: it is late by one such step at most.
        """
        loop = asyncio.get_running_loop()
        step = timeout / STALL_STEPS
        quiet_steps = 0
        handle: asyncio.TimerHandle

        def look() -> None:
            nonlocal quiet_steps, handle
            quiet_steps = quiet_steps + 1 if self._quiet and not self._demand.busy else 0
            self._quiet = True
            if quiet_steps >= STALL_STEPS:
                self._stalled = True
                self._scope.cancel(self.task)
            else:
                handle = loop.call_later(step, look)

        handle = loop.call_later(step, look)

        def stop() -> None:
            handle.cancel()  # whichever timer is the current one

        return stop


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
        if self._end.done():
            self._end.exception()  # seen, so that the loop does not report it as forgotten
        else:
            self._end.cancel()
        await self._scope.aclose()

    @property
    def ended(self) -> bool:
        """Whether the observable has completed or failed."""
        return self._end.done()

    def when_ended(self, callback: Callable[[], None]) -> None:
        """Call back once it has."""
        self._end.add_done_callback(lambda _: callback())

    async def completed(self) -> None:
        """Wait until the observable has completed; raises what it failed with."""
        await asyncio.shield(self._end)

    def _completed(self) -> None:
        if not self._end.done():
            self._end.set_result(None)

    def _failed(self, error: Exception) -> None:
        if self._end.done():
            report("An observable failed after it had ended", error)
        else:
            self._end.set_exception(error)


async def side_by_side(*work: Coroutine[Any, Any, T]) -> list[T]:
    """Run coroutines beside each other and wait for all their results.

    Args:
        *work: What to run.

    Returns:
        The results, in the order given.

    Raises:
        Exception: The first that one of them raises; the others are cancelled and have ended.
    """
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


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
    waiting: deque[T] = deque()
    demand = Demand()
    holding = False
    wake = asyncio.Event()

    def on_next(item: T) -> None:
        nonlocal holding
        waiting.append(item)
        wake.set()
        if not holding and len(waiting) >= buffer:
            holding = True
            demand.hold()

    async with Subscription(observable, on_next, demand) as subscription:
        subscription.when_ended(wake.set)
        while True:
            while waiting:
                item = waiting.popleft()
                if holding and len(waiting) < buffer:
                    holding = False
                    demand.release()
                yield item
            if subscription.ended:
                await subscription.completed()
                return
            wake.clear()
            await wake.wait()


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
