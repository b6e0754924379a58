"""The subscribers of a run: each on its own, so that none can hurt the run or the others."""

from __future__ import annotations

import asyncio
import inspect
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeGuard

from reactivex import Observable

from streamval.aio.inbox import Inbox
from streamval.aio.scope import Scope, enter_scope, exit_scope
from streamval.aio.tasks import CLOSING_GRACE, report
from streamval.errors import UsageError
from streamval.events import CompletedEvent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator

    from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase

    from streamval.aio.gate import Gate
    from streamval.events import Event

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


# Whose async sink is running. A task that the sink starts inherits it.
_serving: ContextVar[Subscribers | None] = ContextVar("streamval_serving", default=None)


class Subscribers:
    """The subscribers of one run.

    A sync sink is called where the event arises. An async one gets a mailbox and a task of its
    own, so that it may be slow: a full mailbox pauses the source, or drops the oldest event.

    Args:
        gate: Paused by full mailboxes.

    Attributes:
        listening: Whether there has ever been a subscriber. Without one no event need be made.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._scope: Scope | None = None  # made for the first async sink
        self._sinks: tuple[_Subscriber, ...] = ()  # replaced, not changed, as sinks come and go
        self._inboxes: list[Inbox[Event]] = []
        self._hurried = False
        self._in_a_hurry: asyncio.Event | None = None  # while `finish` waits
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
        subscriber = _Subscriber(sink, overflow, self)
        self._sinks += (subscriber,)
        self.listening = True

        def remove() -> None:
            if subscriber in self._sinks:
                self._sinks = tuple(kept for kept in self._sinks if kept is not subscriber)
                subscriber.drop()

        return remove

    def inbox(self) -> Inbox[Event]:
        """A mailbox for the one that iterates the run. When it is full, it pauses the source."""
        inbox: Inbox[Event] = Inbox(self._gate)
        self._inboxes.append(inbox)
        self.listening = True
        return inbox

    def publish(self, event: Event) -> None:
        """Hand an event to each of them, in the order they subscribed.

        Raises:
            BaseException: The first that a sync sink raises which is no `Exception`. Every
                subscriber has got the event then.
        """
        for inbox in self._inboxes:
            inbox.put(event)
        if not self._sinks:
            return
        raised: BaseException | None = None
        token = enter_scope(None)  # what a subscriber subscribes to is its own business
        for subscriber in self._sinks:
            try:
                subscriber.deliver(event)
            except BaseException as error:  # to be raised once all have the event
                raised = raised or error
        exit_scope(token)
        if raised is not None:
            raise raised

    def is_serving(self) -> bool:
        """Whether this is called from an async sink, or from a task that one has started."""
        return _serving.get() is self

    def hurry(self) -> None:
        """The run was cancelled: let `finish` wait for `CLOSING_GRACE` seconds at most."""
        self._hurried = True
        if self._in_a_hurry is not None:
            self._in_a_hurry.set()

    async def finish(self) -> None:
        """Wait until the async ones have handled what is in their mailboxes."""
        handling = {task for subscriber in self._sinks if (task := subscriber.close())}
        if handling:
            self._in_a_hurry = asyncio.Event()
            hurried = asyncio.ensure_future(self._in_a_hurry.wait())
            try:
                while not self._hurried and not all(task.done() for task in handling):
                    await asyncio.wait({*handling, hurried}, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.wait(handling, timeout=CLOSING_GRACE)
            finally:
                hurried.cancel()
        if self._scope is not None:
            await self._scope.aclose()
        for subscriber in self._sinks:
            subscriber.sum_up()
        self._sinks = ()  # which know this object: a ring that only a garbage collector would free

    def serve(
        self, work: Callable[[Inbox[Event]], Coroutine[Any, Any, None]], *, drop: bool
    ) -> tuple[Inbox[Event], asyncio.Task[None]]:
        """Make a mailbox for an async sink, and start what serves it."""
        if self._scope is None:
            self._scope = Scope(self._gate)
        mail: Inbox[Event] = Inbox(self._gate, drop=drop)
        return mail, self._scope.spawn(work(mail))


def as_observable(
    subscribe: Callable[[Sink], DisposableBase], error: Callable[[], BaseException | None]
) -> Observable[Event]:
    """Events as an observable, which ends after a `CompletedEvent`.

    Args:
        subscribe: Subscribes a sink to them.
        error: What ended the run, if anything did.
    """

    def subscribe_observer(
        observer: ObserverBase[Event],
        scheduler: SchedulerBase | None = None,  # noqa: ARG001  reactivex passes it
    ) -> DisposableBase:
        def on_event(event: Event) -> None:
            observer.on_next(event)
            if isinstance(event, CompletedEvent):
                failure: Any = error()
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

    def __init__(self, sink: Sink, overflow: Overflow, subscribers: Subscribers) -> None:
        self._sink = sink
        self._overflow = overflow
        self._subscribers = subscribers
        self._mail: Inbox[Event] | None = None
        self.task: asyncio.Task[None] | None = None
        self._raised = 0

    def deliver(self, event: Event) -> None:
        if self._mail is not None:
            if self.task is not None and not self.task.done():
                self._mail.put(event)
            return
        try:
            answer = self._sink(event)
        except (Exception, asyncio.CancelledError) as error:  # it must not hurt the run
            self._report(error)
            return
        if answer is not None and _is_to_be_awaited(answer):
            self._mail, self.task = self._subscribers.serve(
                partial(self._handle, answer), drop=self._overflow == "drop"
            )

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

    async def _handle(self, first: Awaitable[object], mail: Inbox[Event]) -> None:
        _serving.set(self._subscribers)
        try:
            await self._see_through(first)
            async for event in mail:
                await self._see_through(self._call(event))
        finally:
            mail.resume()

    async def _call(self, event: Event) -> None:
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
        except Exception as error:  # a subscriber must not hurt the run
            self._report(error)

    def _report(self, error: BaseException) -> None:
        """Report what the sink raises first. The rest, likely the same, is counted."""
        self._raised += 1
        if self._raised == 1:
            report(f"The subscriber {self._name} raised; the run goes on", error)

    def sum_up(self) -> None:
        """At the end, say how often the sink has raised, if that was more than once."""
        if self._raised > 1:
            report(f"The subscriber {self._name} raised {self._raised} times in all", None)

    @property
    def _name(self) -> str:
        name: str = getattr(self._sink, "__qualname__", type(self._sink).__name__)
        return name
