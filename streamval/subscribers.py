"""Who listens to a run: each subscriber on its own, so that none can hurt the run or the others."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeGuard

from reactivex import Observable

from streamval.errors import UsageError
from streamval.events import CompletedEvent
from streamval.scope import CLOSING_GRACE, Inbox, Scope, outside, report

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase

    from streamval.events import BaseEvent
    from streamval.scope import Demand

Overflow: TypeAlias = Literal["hold", "drop"]
Sink: TypeAlias = "Callable[[Any], object | Awaitable[object]]"


class Cancellation:
    """What `Run.cancel` returns: awaiting it waits until the run is over.

    A type of its own, as ``lambda event: run.cancel()`` is a subscriber that returns it, and a run
    that waited for its subscriber to wait for the run would wait for good.
    """

    def __init__(self, task: asyncio.Task[Any] | None) -> None:
        self._task = task

    def __await__(self) -> Generator[Any, None, None]:
        if self._task is not None and not self._task.done():
            yield from asyncio.wait([self._task]).__await__()


class Subscribers:
    """The subscribers of one run.

    A sync sink is called where the event arises. An async one gets a mailbox and a task of its
    own, so that it may be slow: a full mailbox holds the source back, or drops the oldest event.

    Attributes:
        listening: Whether anybody has ever subscribed; an event for nobody need not be made.
    """

    def __init__(self, demand: Demand) -> None:
        self._demand = demand
        self._scope = Scope(demand)
        self._sinks: tuple[_Subscriber, ...] = ()  # replaced, not changed, as sinks come and go
        self._inboxes: list[Inbox[BaseEvent]] = []
        self._hurried = asyncio.Event()
        self.listening = False

    def add(self, sink: Sink, overflow: Overflow = "hold") -> Callable[[], None]:
        """Subscribe; returns how to unsubscribe."""
        if not callable(sink):
            message = (
                f"a subscriber is a function of an event, sync or async, not {type(sink).__name__}"
            )
            raise UsageError(message)
        if overflow not in ("hold", "drop"):
            message = f"overflow must be 'hold' or 'drop', not {overflow!r}"
            raise UsageError(message)
        subscriber = _Subscriber(sink, overflow, self._scope)
        self._sinks += (subscriber,)
        self.listening = True

        def remove() -> None:
            if subscriber in self._sinks:
                self._sinks = tuple(kept for kept in self._sinks if kept is not subscriber)
                subscriber.drop()

        return remove

    def inbox(self) -> Inbox[BaseEvent]:
        """A mailbox of the run's own, for whoever iterates it; full, it holds the source back."""
        inbox: Inbox[BaseEvent] = Inbox(self._demand)
        self._inboxes.append(inbox)
        self.listening = True
        return inbox

    def publish(self, event: BaseEvent) -> None:
        """Hand an event to each of them, in the order they subscribed."""
        for inbox in self._inboxes:
            inbox.put(event)
        if self._sinks:
            with outside():
                for subscriber in self._sinks:
                    subscriber.deliver(event)

    def handles(self, task: asyncio.Task[Any] | None) -> bool:
        """Whether this is the task of one of them."""
        return task is not None and any(s.task is task for s in self._sinks)

    def hurry(self) -> None:
        """The run was cancelled: `finish` waits no longer than the closing grace."""
        self._hurried.set()

    async def finish(self) -> None:
        """Wait until the async ones have handled what is in their mailboxes."""
        handling = {task for subscriber in self._sinks if (task := subscriber.close())}
        if handling:
            hurried = asyncio.ensure_future(self._hurried.wait())
            try:
                while not self._hurried.is_set() and not all(task.done() for task in handling):
                    await asyncio.wait({*handling, hurried}, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.wait(handling, timeout=CLOSING_GRACE)
            finally:
                hurried.cancel()
        await self._scope.aclose()


def as_observable(
    subscribe: Callable[[Sink], DisposableBase], error: Callable[[], Exception | None]
) -> Observable[BaseEvent]:
    """Events as an observable, which ends after a `CompletedEvent`.

    Args:
        subscribe: Subscribes a sink to them.
        error: What ended the run, if anything did.
    """

    def subscribe_observer(
        observer: ObserverBase[BaseEvent],
        scheduler: SchedulerBase | None = None,  # noqa: ARG001  reactivex passes it
    ) -> DisposableBase:
        def on_event(event: BaseEvent) -> None:
            observer.on_next(event)
            if isinstance(event, CompletedEvent):
                failure = error()
                if failure is None:
                    observer.on_completed()
                else:
                    observer.on_error(failure)

        return subscribe(on_event)

    return Observable(subscribe_observer)


def _is_to_be_awaited(answer: object) -> TypeGuard[Awaitable[object]]:
    return inspect.isawaitable(answer) and not isinstance(answer, Cancellation)


class _Subscriber:
    """A sink, and a mailbox once it has turned out to be async."""

    def __init__(self, sink: Sink, overflow: Overflow, scope: Scope) -> None:
        self._sink = sink
        self._overflow = overflow
        self._scope = scope
        self._mail: Inbox[BaseEvent] | None = None
        self.task: asyncio.Task[None] | None = None

    def deliver(self, event: BaseEvent) -> None:
        if self._mail is not None:
            if self.task is not None and not self.task.done():
                self._mail.put(event)
            return
        try:
            answer = self._sink(event)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  it must not hurt the run
            self._report(error)
            return
        if answer is not None and _is_to_be_awaited(answer):
            self._mail = Inbox(self._scope.demand, drop=self._overflow == "drop")
            self.task = self._scope.spawn(self._handle(answer, self._mail))

    def close(self) -> asyncio.Task[None] | None:
        """No more events will come; returns the task that handles the last ones."""
        if self._mail is not None:
            self._mail.close()
        return self.task

    def drop(self) -> None:
        """Unsubscribed: what waits is not wanted any more."""
        if self._mail is not None:
            self._mail.clear()
            self._mail.close()

    async def _handle(self, first: Awaitable[object], mail: Inbox[BaseEvent]) -> None:
        try:
            await self._see_through(first)
            async for event in mail:
                await self._see_through(self._call(event))
        finally:
            mail.let_go()

    async def _call(self, event: BaseEvent) -> None:
        answer = self._sink(event)
        if _is_to_be_awaited(answer):
            await answer

    async def _see_through(self, handling: Awaitable[object]) -> None:
        try:
            await handling
        except asyncio.CancelledError as cancelled:
            if self.task is not None and self.task.cancelling():
                raise
            self._report(cancelled)
        except Exception as error:  # noqa: BLE001  a subscriber must not hurt the run
            self._report(error)

    def _report(self, error: BaseException) -> None:
        name = getattr(self._sink, "__qualname__", type(self._sink).__name__)
        report(f"The subscriber {name} raised; the run goes on", error)
