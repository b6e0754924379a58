"""The subscribers of a run, isolated from the run and from each other."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import ContextVar
from functools import partial
from typing import Any, Literal, TypeAlias, TypeGuard

from streamval.aio.gate import Gate
from streamval.aio.inbox import Inbox
from streamval.aio.scope import Scope, enter_scope, exit_scope
from streamval.aio.tasks import CLOSING_GRACE, report
from streamval.errors import UsageError
from streamval.events import BaseEvent, Event

Overflow: TypeAlias = Literal["hold", "drop"]
Sink: TypeAlias = "Callable[[Any], object | Awaitable[object]]"
EventClasses: TypeAlias = "tuple[type[BaseEvent], ...]"


class Cancellation:
    """The result of `Run.cancel`: await it to wait until the run is over.

    It has its own type, so that a run does not await it when a subscriber returns it, as
    ``lambda event: run.cancel()`` does: the run would wait for itself.
    """

    def __init__(self, task: asyncio.Task[Any] | None) -> None:
        self._task = task

    def __await__(self) -> Generator[Any, None, None]:
        if self._task is not None and not self._task.done():
            yield from asyncio.wait([self._task]).__await__()


# The subscribers whose async sink is running. Tasks that the sink starts inherit it.
_serving: ContextVar[Subscribers | None] = ContextVar("streamval_serving", default=None)


class Subscribers:
    """The subscribers of one run.

    An event that no subscriber wants is not made: see `of`. A sync sink is called where the event arises. An async one gets a mailbox and a task of its
    own, so that it may be slow: a full mailbox pauses the source, or drops the oldest event.

    Args:
        gate: Paused by full mailboxes.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._scope: Scope | None = None  # made for the first async sink
        self._sinks: tuple[_Subscriber, ...] = ()  # replaced, not changed, as sinks come and go
        self._by_class: dict[type[BaseEvent], tuple[_Subscriber, ...]] = {}
        self._hurried = False
        self._in_a_hurry: asyncio.Event | None = None  # while `finish` waits

    def add(
        self, sink: Sink, overflow: Overflow = "hold", events: EventClasses | None = None
    ) -> Callable[[], None]:
        """Subscribe a sink. Return a function that unsubscribes it."""
        check_sink(sink, overflow)
        check_events(events)
        subscriber = _Subscriber(sink, overflow, self, events)
        self._set((*self._sinks, subscriber))

        def remove() -> None:
            if subscriber in self._sinks:
                self._set(tuple(kept for kept in self._sinks if kept is not subscriber))
                subscriber.drop()

        return remove

    def _set(self, sinks: tuple[_Subscriber, ...]) -> None:
        self._sinks = sinks
        self._by_class = {}

    def of(self, event: type[BaseEvent]) -> tuple[_Subscriber, ...]:
        """Return the subscribers of a class of events, in the order in which they subscribed."""
        known = self._by_class.get(event)
        if known is None:
            known = tuple(one for one in self._sinks if one.events is None or event in one.events)
            self._by_class[event] = known
        return known

    def publish(self, event: Event, to: tuple[_Subscriber, ...]) -> None:
        """Hand an event to the subscribers of its class.

        Raises:
            BaseException: The first `SystemExit` or `KeyboardInterrupt` of a sync sink, after every
                subscriber has got the event.
        """
        raised: BaseException | None = None
        token = enter_scope(
            None
        )  # the observables that a subscriber subscribes to run outside our scope
        for subscriber in to:
            try:
                subscriber.deliver(event)
            except BaseException as error:  # to be raised once all have the event
                raised = raised or error
        exit_scope(token)
        if raised is not None:
            raise raised

    def is_serving(self) -> bool:
        """Return whether this is called from an async sink, or from a task that one has started."""
        return _serving.get() is self

    def hurry(self) -> None:
        """After a cancellation, let `finish` wait for at most `CLOSING_GRACE` seconds."""
        self._hurried = True
        if self._in_a_hurry is not None:
            self._in_a_hurry.set()

    async def finish(self) -> None:
        """Wait until the async subscribers have handled the events in their mailboxes."""
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
        self._set(())  # they refer to this object: a reference cycle

    def serve(
        self, work: Callable[[Inbox[Event]], Coroutine[Any, Any, None]], *, drop: bool
    ) -> tuple[Inbox[Event], asyncio.Task[None]]:
        """Make a mailbox for an async sink, and start the task that serves it."""
        if self._scope is None:
            self._scope = Scope(self._gate)
        mail: Inbox[Event] = Inbox(self._gate, drop=drop)
        return mail, self._scope.spawn(work(mail))


def check_sink(sink: object, overflow: object) -> None:
    """Check the arguments of a subscription.

    Raises:
        UsageError: If one of them cannot work.
    """
    if not callable(sink):
        raise UsageError(
            f"a subscriber is a function of an event, sync or async, not {type(sink).__name__}"
        )
    if overflow not in ("hold", "drop"):
        raise UsageError(f"overflow must be 'hold' or 'drop', not {overflow!r}")


def check_events(events: object) -> None:
    """Check the classes of events of a subscription.

    Raises:
        UsageError: If they are none.
    """
    if events is not None and not (isinstance(events, tuple) and all(map(_is_event_class, events))):
        raise UsageError(f"events must be a tuple of classes of events, not {events!r:.200}")


def _is_event_class(given: object) -> bool:
    return isinstance(given, type) and issubclass(given, BaseEvent)


def _is_to_be_awaited(answer: object) -> TypeGuard[Awaitable[object]]:
    return inspect.isawaitable(answer) and not isinstance(answer, Cancellation)


class _Subscriber:
    """A sink, and a mailbox once it has turned out to be async."""

    def __init__(
        self,
        sink: Sink,
        overflow: Overflow,
        subscribers: Subscribers,
        events: EventClasses | None = None,
    ) -> None:
        self._sink = sink
        self.events = events
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
        """Close the mailbox; return the task that handles the last events."""
        if self._mail is not None:
            self._mail.close()
        return self.task

    def drop(self) -> None:
        """Drop the waiting events and close the mailbox: the sink has unsubscribed."""
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
        """Report the sink's first exception. Later exceptions are only counted."""
        self._raised += 1
        if self._raised == 1:
            report(f"The subscriber {self._name} raised; the run continues", error)

    def sum_up(self) -> None:
        """Report how often the sink has raised, if that was more than once."""
        if self._raised > 1:
            report(f"The subscriber {self._name} raised {self._raised} times in all", None)

    @property
    def _name(self) -> str:
        name: str = getattr(self._sink, "__qualname__", type(self._sink).__name__)
        return name
