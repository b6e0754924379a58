"""Observables whose time operators run on the event loop, and not on threads of reactivex."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import suppress
from datetime import datetime, timedelta
from inspect import iscoroutinefunction
from queue import SimpleQueue
from threading import get_ident, local
from typing import Any, TypeVar

from reactivex import Observable
from reactivex import operators as ops
from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase
from reactivex.disposable import CompositeDisposable, Disposable, SingleAssignmentDisposable
from reactivex.scheduler import CurrentThreadScheduler
from reactivex.scheduler.eventloop import AsyncIOScheduler

from streamval.aio.tasks import loop_or_none
from streamval.errors import UsageError

T = TypeVar("T")


class _Awaited(local):
    """Of each thread, as an observable is subscribed to at once."""

    now = False


_awaited = _Awaited()


def is_awaited() -> bool:
    """Return whether an observable is being subscribed to by ``await``, which waits for its end."""
    return _awaited.now


class LoopScheduler(AsyncIOScheduler):
    """A scheduler whose timers and clock are the loop's. The clock of `AsyncIOScheduler` is the wall's.

    What is due at once runs at once, as in Rx: `ops.start_with` subscribes to its source before ``subscribe`` returns,
    and so loses nothing of a hot one. Timers may be set and cancelled from any thread, and wake the loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._home = get_ident()
        self._began = super().now - timedelta(seconds=loop.time())

    @property
    def now(self) -> datetime:
        """The time of the loop, from the wall's clock when this was made."""
        return self._began + timedelta(seconds=self._loop.time())

    def schedule(self, action: Any, state: Any = None) -> DisposableBase:
        """Run an action now, behind what is running."""

        def run(_: SchedulerBase, state: Any = None) -> DisposableBase | None:
            return self.invoke_action(action, state)

        return CurrentThreadScheduler.singleton().schedule(run, state)

    def schedule_relative(self, duetime: Any, action: Any, state: Any = None) -> DisposableBase:
        """Run an action after some time, and for 0 seconds in the next turn of the loop."""
        seconds, done = self.to_seconds(duetime), SingleAssignmentDisposable()
        timer: asyncio.Handle | None = None

        def fire() -> None:
            done.disposable = self.invoke_action(action, state)

        def start() -> None:
            nonlocal timer
            if not done.is_disposed:
                loop = self._loop
                timer = loop.call_later(seconds, fire) if seconds > 0 else loop.call_soon(fire)

        def cancel() -> None:
            if timer is not None:
                timer.cancel()

        self._at_home(start)
        return CompositeDisposable(done, Disposable(lambda: self._at_home(cancel)))

    def _at_home(self, call: Callable[[], None]) -> None:
        if get_ident() == self._home:
            call()
        else:
            call_threadsafe(self._loop, call)


def call_threadsafe(
    loop: asyncio.AbstractEventLoop, call: Callable[..., None], *items: Any
) -> None:
    """Call back on a loop, from any thread. A loop that is closed has nothing left to be told."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *items)


def loop_scheduler() -> SchedulerBase | None:
    """Return a scheduler of the running event loop; `None` where none is running."""
    loop = loop_or_none()
    return None if loop is None else LoopScheduler(loop)


class Crossing:
    """Makes calls on the loop that runs here, in their order, from whichever thread they come.

    A call from another thread wakes the loop. Where no loop is running, a function is called as it is.

    Args:
        failed: Called with what a call that came from another thread raises.
    """

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        self._loop, self._home = loop_or_none(), get_ident()
        self._waiting: SimpleQueue[tuple[Callable[..., None], tuple[Any, ...]]] = SimpleQueue()
        self._failed = failed

    def over(self, call: Callable[..., None]) -> Callable[..., None]:
        """Return a function that makes the call on the loop."""

        def called(*items: Any) -> None:
            if get_ident() == self._home and self._waiting.empty():
                call(*items)
            else:
                self._put(call, items)

        return call if self._loop is None else called

    def _put(self, call: Callable[..., None], items: tuple[Any, ...]) -> None:
        """Let a call wait: behind those that wait, also where it comes from home."""
        assert self._loop is not None
        self._waiting.put((call, items))
        call_threadsafe(self._loop, self._next)

    def close(self) -> None:
        """Drop the calls that wait."""
        while not self._waiting.empty():
            self._waiting.get()

    def _next(self) -> None:
        if not self._waiting.empty():
            call, items = self._waiting.get()
            try:
                call(*items)
            except BaseException as error:
                self._failed(error)


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
        if iscoroutinefunction(getattr(on_next, "on_next", on_next)):
            raise UsageError(
                "on_next is a coroutine function, which an observable does not await; use "
                "run.subscribe(…), or `async for item in bridge.iterate(observable)`"
            )
        return super().subscribe(on_next, *more, **named)

    def __await__(self) -> Generator[Any, None, T]:
        _awaited.now = True
        try:
            last = self.pipe(ops.to_future())
        finally:
            _awaited.now = False
        return last.__await__()  # type: ignore[no-any-return]

    def __add__(self, other: Any) -> Any:
        return on_loop(super().__add__(other))

    def pipe(self, *operators: Callable[[Any], Any]) -> Any:
        """Compose operators, each of which is on the loop."""
        made: Any = self
        for operator in operators:
            made = on_loop(operator(made))
        return made


class Direct(OnLoop[T]):
    """An observable whose items a pump reads, and operators of this package pass on.

    It calls its observer on the loop that subscribed, within the scope of the subscription, and has one end at most. Once it
    is disposed of it may still push the chunks of the delta that it is cutting, so what subscribes directly has to ignore
    them. `subscribe_directly` then needs no observer of reactivex, which would cost each item a call.
    """

    def _subscribe_core(
        self, observer: ObserverBase[T], scheduler: SchedulerBase | None = None
    ) -> DisposableBase:
        # Not by `OnLoop`, which would make a scheduler that nothing here uses.
        return super(OnLoop, self)._subscribe_core(observer, scheduler)


def subscribe_directly(
    source: Observable[T], receiver: Any, scheduler: SchedulerBase | None
) -> DisposableBase:
    """Subscribe to an observable; where it is `Direct`, without an observer between.

    Args:
        source: The observable.
        receiver: Has the three functions of an observer.
        scheduler: As for any subscription.
    """
    if isinstance(source, Direct):
        return source._subscribe_core(receiver, scheduler)
    return source.subscribe(receiver, scheduler=scheduler)


def made_behind(
    source: Observable[Any],
    subscribe: Callable[[ObserverBase[T], SchedulerBase | None], DisposableBase],
) -> Observable[T]:
    """Return the observable that an operator of this package makes of a source: `Direct` behind what is `Direct`."""
    return Direct(subscribe) if isinstance(source, Direct) else OnLoop(subscribe)


def at_home(call: Callable[[], None]) -> Callable[[], None]:
    """Return a function that makes a call on the loop that runs here, from whichever thread it is called.

    What the call raises from another thread goes to the loop's exception handler.
    """
    loop, home = loop_or_none(), get_ident()

    def called() -> None:
        if loop is None or get_ident() == home:
            call()
        else:
            call_threadsafe(loop, call)

    return called


def on_loop(observable: Any) -> Any:
    """Return an observable that is on the loop. What is not a plain `Observable` stays as it is."""
    if type(observable) is not Observable:  # a ConnectableObservable, say, has methods of its own
        return observable
    return OnLoop(observable._subscribe_core)  # no second observer an item
