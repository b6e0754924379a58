"""`Run`: the attempts of one prompt, driven by one task and watched by subscribers."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Generic, Literal, Self

from aiostream import Stream
from reactivex import Observable
from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase
from reactivex.disposable import CompositeDisposable, Disposable

from streamval.aio.gate import Gate
from streamval.aio.inbox import Inbox
from streamval.aio.on_loop import OnLoop, is_awaited
from streamval.aio.one_loop import OneLoop
from streamval.aio.scope import scope
from streamval.aio.tasks import loop_or_none, report, running_loop
from streamval.backends.base import Backend, GenerationRequest
from streamval.chunkers.chunking import describe_chunking
from streamval.errors import RunError
from streamval.events import BaseEvent, ChunkEvent, CompletedEvent, ErrorEvent, Event, StartedEvent
from streamval.pipeline.attempts import Attempts
from streamval.pipeline.emitter import Emitter
from streamval.pipeline.instrument import instruments
from streamval.pipeline.settings import Settings
from streamval.pipeline.subscribers import (
    Cancellation,
    EventClasses,
    Overflow,
    Sink,
    Subscribers,
    check_events,
)
from streamval.requirements.base import Requirement
from streamval.types.chunks import Chunk
from streamval.types.notebook import html_of, viewer
from streamval.types.results import StreamResult, T


class Run(Generic[T]):
    """A run of one prompt through a pipeline. Made by `Pipeline.start`.

    A run starts when it is first driven, by ``async for``, ``await`` or `begin`. Earlier subscribers get
    every event; later subscribers get only the events that follow. Leaving ``async with``,
    or cancelling the task that drives the run, closes the backend before control returns. A plain
    ``async for`` that is left with ``break`` closes it when the event loop runs again: ``break``
    cannot wait for it, so prefer ``async with``.

    Example:
        >>> import asyncio
        >>> from streamval import Pipeline, ScriptedBackend
        >>> async def main():
        ...     async with Pipeline(ScriptedBackend("One. Two.")).start("Count.") as run:
        ...         async for chunk in run.chunks():
        ...             print(chunk.text)
        >>> asyncio.run(main())
        One.
        Two.
    """

    def __init__(self, settings: Settings, request: GenerationRequest, loop: OneLoop) -> None:
        self.run_id = secrets.token_hex(16)
        self._settings = settings
        self._loop = loop
        self._gate = Gate()
        self._subscribers = Subscribers(self._gate)
        self._task: asyncio.Task[StreamResult[T] | None] | None = None
        self._prompt = request.messages[-1].content
        self._begun = False
        self._cancelling = False
        self._completed = False
        self._iterated = False
        self._waiting: list[asyncio.Future[None]] = []  # for the end of the task
        self._error: BaseException | None = None
        self._is_handled = False
        self._emitter = Emitter(self._subscribers, self.run_id)
        self._attempts = Attempts(settings, request, self._emitter, self._gate)

    # Watching

    def subscribe(
        self, sink: Sink, overflow: Overflow = "hold", *, events: EventClasses | None = None
    ) -> DisposableBase:
        """Call `sink` with each event.

        Args:
            sink: A function of an event, sync or async; or an Rx `Observer`, which also gets the end. Its
                exceptions are reported to the loop's exception handler, the first at once and the
                count at the end, and affect neither the run nor other subscribers.
            overflow: What happens when the mailbox of an async sink is full: `"hold"` pauses the
                source, so that nothing is lost; `"drop"` drops the oldest event.
            events: The classes of the events that it gets; `None` for all. An observer gets the `CompletedEvent`,
                with which it ends, in any case. An event that no subscriber gets is not made, which saves its time.

        Returns:
            Dispose of it to unsubscribe.

        Raises:
            UsageError: If `sink` is neither a function nor an observer, or `events` are no classes of events.
            RunError: If the run is over.

        Example:
            >>> import asyncio
            >>> from streamval import ChunkEvent, Pipeline, ScriptedBackend
            >>> async def main():
            ...     run = Pipeline(ScriptedBackend("One. Two.")).start("Count.")
            ...     run.subscribe(lambda event: print(event.text), events=(ChunkEvent,))
            ...     await run
            >>> asyncio.run(main())
            One.
            Two.
        """
        if self._completed:
            raise RunError("the run is over; subscribe before it is driven")
        if isinstance(sink, ObserverBase):
            check_events(events)
            return OnLoop(partial(self._subscribe_observer, events=events)).subscribe(sink)
        return Disposable(self._subscribers.add(sink, overflow, events))

    @property
    def events(self) -> Observable[Event]:
        """The events as a hot observable, which ends after a `CompletedEvent`: subscribing does not start the run.

        A slow consumer (`bridge.iterate`) holds the source back. To wait for the observable, `begin` the run first:

        Example:
            >>> import asyncio
            >>> from reactivex import operators as ops
            >>> from streamval import Pipeline, ScriptedBackend
            >>> async def main():
            ...     async with Pipeline(ScriptedBackend("One. Two.")).start("Count.") as run:
            ...         run.begin()
            ...         print((await run.events.pipe(ops.last())).full_text)
            >>> asyncio.run(main())
            One. Two.
        """
        return OnLoop(self._subscribe_observer)

    def _subscribe_observer(
        self,
        observer: ObserverBase[Event],
        _: SchedulerBase | None,
        *,
        events: EventClasses | None = None,
    ) -> DisposableBase:
        if is_awaited():  # what may begin it in this turn has begun it by then
            asyncio.get_running_loop().call_soon(self._refuse_to_wait, observer)

        def on_event(event: Event) -> None:
            observer.on_next(event)
            if isinstance(event, CompletedEvent):
                self._end_observer(observer)

        if events is not None:  # it ends with that
            events = (*events, CompletedEvent)
        with scope() as current:
            subscription = self.subscribe(current.inside(on_event), events=events)
            let_go = current.gate.also(self._gate)  # a full buffer of theirs pauses the run
        return CompositeDisposable(subscription, Disposable(let_go))

    def _refuse_to_wait(self, observer: ObserverBase[Event]) -> None:
        if self._task is None:
            message = "the run has not begun, so its events would never come; call run.begin()"
            observer.on_error(RunError(message))

    def _end_observer(self, observer: ObserverBase[Event]) -> None:
        failure: Any = self._error
        if failure is None:
            observer.on_completed()
            return
        try:
            observer.on_error(failure)
            self._is_handled = True
        except BaseException as raised:
            if raised is not failure:  # without an on_error, reactivex raises it
                raise

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """The original requirements, which a run never changes."""
        return self._settings.requirements

    @property
    def text(self) -> str:
        """The delivered text that still stands. Empty for sound."""
        return self._attempts.delivered.text

    @property
    def reasoning(self) -> str:
        """The delivered reasoning that still stands."""
        return self._attempts.delivered.reasoning

    @property
    def audio(self) -> bytes | None:
        """The delivered sound that still stands. `None` for text."""
        raw = self._attempts.delivered.raw
        return raw if isinstance(raw, bytes) else None

    @property
    def model(self) -> str:
        """The name of the model that generates."""
        return self._attempts.takeover.current.model

    @property
    def backend(self) -> Backend:
        """The backend that generates: of several, the current one."""
        return self._attempts.takeover.current

    @property
    def prompt(self) -> str:
        """The last message of what was asked."""
        return self._prompt

    @property
    def request(self) -> GenerationRequest:
        """The request of the current attempt."""
        return self._attempts.request

    @property
    def state(self) -> Literal["not started", "running", "over"]:
        """Whether the run has started, and ended."""
        if self._completed:
            return "over"
        return "not started" if self._task is None else "running"

    def live(self) -> Any:
        """Return a widget that shows the run in a notebook while it is driven, and stays as a picture.

        Show it like any widget, as the last value of a cell or by ``display``. Then drive the
        run. It is updated ten times a second at most and never holds the run back. The run sends tokens
        and verdicts (`emit_tokens`, `emit_verdicts`), so that text shows before it is judged. Needs
        ``pip install "streamval-llm[notebook]"``.

        Returns:
            An `anywidget`.

        Raises:
            RunError: If the run has been started: its beginning would be missing.
            UsageError: If `anywidget` is not installed.
        """
        if self.state != "not started":
            raise RunError("the run has been started; call live() before it is driven")
        widget = viewer().live_run(self)
        self._settings = replace(self._settings, emit_tokens=True, emit_verdicts=True)
        self._attempts = Attempts(self._settings, self._attempts.request, self._emitter, self._gate)
        return widget

    _repr_html_ = html_of

    def __repr__(self) -> str:
        return f"<Run of {self.model!r}: {self.state}, {len(self.text)} characters>"

    # Driving

    def __aiter__(self) -> AsyncIterator[Event]:
        return self.iterate()

    def iterate(self, *events: type[BaseEvent]) -> AsyncGenerator[Event]:
        """Drive the run, as ``async for`` over it does, and yield the events of these classes.

        Args:
            *events: The classes; all if there are none. The `CompletedEvent`, which is the last, always comes.

        Returns:
            The events. Others are not made, unless a subscriber gets them.

        Raises:
            RunError: If the run has been iterated.
            UsageError: If one of them is not a class of events.

        Example:
            >>> import asyncio
            >>> from streamval import ChunkEvent, Pipeline, ScriptedBackend
            >>> async def main():
            ...     run = Pipeline(ScriptedBackend("One. Two.")).start("Count.")
            ...     return [event.type async for event in run.iterate(ChunkEvent)]
            >>> asyncio.run(main())
            ['chunk', 'chunk', 'completed']
        """
        if self._iterated:
            raise RunError(
                "a run can be iterated once; use subscribe() to watch it from two places"
            )
        check_events(events)
        self._iterated = True
        return self._iterate(events or None)

    def _refuse_subscriber(self) -> None:
        """Refuse an async sink that waits for its own run: both would wait for ever."""
        if self._subscribers.is_serving():
            raise RunError(
                "a subscriber cannot wait for its own run, which waits for its subscribers; wait "
                "outside, or call run.cancel()"
            )

    def begin(self) -> None:
        """Let the run start in the background, and return at once.

        An error that ends it is reported to the loop's exception handler, unless something waits for the
        run by then, or an observer of `events` handles it.

        Raises:
            RunError: If no event loop is running, or the run belongs to another one.
        """
        self._started()

    def __or__(self, operator: Callable[[Any], Stream[Any]]) -> Stream[Any]:
        """Pipe the events into an operator of aiostream: the end of that stream closes the run.

        Example:
            >>> import asyncio
            >>> from aiostream import pipe
            >>> from streamval import Pipeline, ScriptedBackend
            >>> async def main():
            ...     run = Pipeline(ScriptedBackend("One. Two. Three.")).start("Count.")
            ...     return [event.type for event in await (run | pipe.take(2) | pipe.list())]
            >>> asyncio.run(main())
            ['started', 'chunk']
        """
        return operator(self)

    async def _iterate(self, classes: EventClasses | None) -> AsyncGenerator[Event]:
        self._refuse_subscriber()
        inbox: Inbox[Event] = Inbox(self._gate)
        subscription = self.subscribe(inbox.put, events=classes and (*classes, CompletedEvent))
        try:
            self._started()
            self._is_handled = True  # this raises what ends the run, and its events have it
            async for event in inbox:
                yield event
                if isinstance(event, CompletedEvent):
                    break
            await self._ended(self._started())
        finally:
            subscription.dispose()
            inbox.clear()
            await self.aclose()

    async def chunks(self) -> AsyncGenerator[Chunk]:
        """Yield the delivered chunks: drives the run, as ``async for`` over its events does.

        With a repair, chunks of a rejected attempt may have been yielded before. A chunk with a higher
        `attempt` than the chunk before it replaces all chunks from its own `index` on.
        """
        async with aclosing(self.iterate(ChunkEvent)) as events:
            async for event in events:
                if isinstance(event, ChunkEvent):
                    yield event.chunk()

    def __await__(self) -> Generator[Any, None, StreamResult[T]]:
        return self._ended(self._started()).__await__()

    def cancel(self) -> Cancellation:
        """Stop generating. The run completes with `success` false.

        May be called from a subscriber, and from another thread. On the run's own loop it cancels
        at once.

        Returns:
            Await it, on the run's loop, to wait until the backend is closed. A subscriber must
            not, as the run waits for its subscribers.
        """
        loop = None if self._task is None else self._task.get_loop()
        if loop is None or loop is loop_or_none():
            self._request_cancel()
        else:
            with suppress(RuntimeError):  # the loop is closed, and so the run is over
                loop.call_soon_threadsafe(self._request_cancel)
        return Cancellation(self._task)

    async def aclose(self) -> None:
        """Cancel the rest of the run, and wait until the backend is closed.

        Errors of the run are not raised; the `ErrorEvent` has them.
        """
        self._request_cancel()
        if self._task is not None and not self._task.done():
            with suppress(Exception):
                await self._ended(self._task)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _started(self) -> asyncio.Task[StreamResult[T] | None]:
        loop = running_loop()
        if self._task is None:
            self._loop.enter(loop)
            for instrument in instruments():
                self._subscribers.add(instrument, instrument.overflow)
            self._task = loop.create_task(self._main())
            self._task.add_done_callback(self._left)
        elif self._task.get_loop() is not loop:
            raise RunError(
                "a run belongs to the event loop that started it; start another one here"
            )
        return self._task

    def _request_cancel(self) -> None:
        """Cancel the attempts, or the wait for slow subscribers after them."""
        if self._completed:
            self._subscribers.hurry()
        elif not self._cancelling:
            self._cancelling = True
            self._attempts.cancel()
            # In the run's own task an event has just been emitted, after which the run looks at
            # the flag. Cancelling that task would interrupt its next await.
            if self._begun and self._task is not None and not self._is_current():
                self._task.cancel()

    def _is_current(self) -> bool:
        """Return whether this is called from the run's own task."""
        return asyncio.current_task() is self._task

    async def _ended(self, task: asyncio.Task[StreamResult[T] | None]) -> StreamResult[T]:
        """Wait for the run. Cancelling the task that waits cancels the run, and waits for its end."""
        self._refuse_subscriber()
        self._is_handled = True  # it raises what ends the run
        interrupted: asyncio.CancelledError | None = None
        while not task.done():
            try:
                waiter: asyncio.Future[None] = task.get_loop().create_future()
                self._waiting.append(waiter)
                await waiter
            except asyncio.CancelledError as cancelled:
                interrupted = cancelled
                self._request_cancel()
        if interrupted is not None:
            if not task.cancelled():
                task.exception()  # retrieved: the cancellation goes first
            raise interrupted
        if self._error is not None:
            raise self._error
        result = task.result()
        assert result is not None
        return result

    def _left(self, task: asyncio.Task[StreamResult[T] | None]) -> None:
        self._loop.leave()
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
        if not self._completed:  # cancelled before it took its first step
            self._complete(success=False)
        if not task.cancelled():
            task.exception()  # retrieved: perhaps an observable or a subscriber alone drives it
        if self._error is not None and not self._is_handled:
            report(f"Run {self.run_id} ended with an error that nothing handles", self._error)

    # Running

    async def _main(self) -> StreamResult[T] | None:
        self._begun = True
        success = False
        interrupted: asyncio.CancelledError | None = None
        settings = self._settings
        try:
            self._attempts.begin()
            self._emitter.emit(
                StartedEvent,
                self._attempts.request.attempt,
                model=self.model,
                requirements=tuple(r.name for r in settings.requirements),
                chunking=describe_chunking(settings.chunking),
            )
            success = not self._cancelling and await self._attempts.run()
        except asyncio.CancelledError as cancelled:
            interrupted = cancelled
        except BaseException as error:  # emitted, then raised to the caller
            self._fail(error)
        self._complete(success=success)
        if interrupted is not None or self._cancelling:
            self._subscribers.hurry()
        await self._subscribers.finish()
        try:
            if interrupted is not None and not self._cancelling:
                raise interrupted
        finally:
            interrupted = None  # its traceback holds this frame, and so the whole run
        if (
            self._error is not None
        ):  # raised to the caller, as a SystemExit here would stop the loop
            return None
        parsed = self._attempts.delivered.parsed(self._attempts.ledger.schema_requirement)
        return self._attempts.ledger.result(self._attempts.delivered, parsed, success=success)

    def _fail(self, error: BaseException) -> None:
        """Keep the exception that ends the run for the caller, and emit it."""
        self._error = error
        with suppress(BaseException):  # of a subscriber: the first exception counts
            self._emitter.emit(
                ErrorEvent,
                self._attempts.request.attempt,
                exception_type=type(error).__name__,
                detail=self._attempts.in_words(error),
            )

    def _complete(self, *, success: bool) -> None:
        self._completed = True
        try:
            self._emitter.emit(
                CompletedEvent,
                self._attempts.request.attempt,
                success=success,
                full_text=self._attempts.ledger.full_text(
                    self._attempts.delivered, success=success
                ),
                attempts_used=len(self._attempts.ledger),
                usage=self._attempts.ledger.usage(success=success),
                closed_at=self._attempts.ledger.closed_at,
            )
        except BaseException as error:  # of a subscriber, and not an Exception
            self._error = self._error or error
