"""A run: the attempts of one prompt, the events they make, and whoever drives and watches it."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from aiostream import streamcontext
from reactivex.disposable import Disposable

from streamval.attempt import Attempt
from streamval.bridge import Subscription
from streamval.checkpoints import Checkpoints
from streamval.chunkers.base import describe_chunking
from streamval.delivered import Delivered
from streamval.errors import RunError
from streamval.events import (
    BaseEvent,
    ChunkEvent,
    CompletedEvent,
    ErrorEvent,
    PartialObjectEvent,
    RetryEvent,
    StartedEvent,
)
from streamval.ledger import Ledger
from streamval.scope import Demand
from streamval.subscribers import Cancellation, Subscribers, as_observable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Generator
    from types import TracebackType

    from reactivex import Observable
    from reactivex.abc import DisposableBase

    from streamval.backends.base import GenerationRequest
    from streamval.chunks import Chunk
    from streamval.pipeline import Pipeline
    from streamval.requirements.base import Requirement
    from streamval.results import StreamResult
    from streamval.subscribers import Overflow, Sink


class Run:
    """One prompt on its way through a pipeline. Made by `Pipeline.start`.

    It starts when it is first driven, by ``async for`` or ``await``. Who subscribed before that
    misses nothing; nothing is kept for those who come later. Leaving ``async with``, or
    cancelling the task that drives it, closes the backend before control returns. A plain
    ``async for`` that is left with ``break`` closes it as soon as the loop runs again: Python
    gives no iterator a way to wait there, so prefer ``async with``.

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

    def __init__(self, pipeline: Pipeline, request: GenerationRequest) -> None:
        self.run_id = secrets.token_hex(16)
        self._pipeline = pipeline
        self._request = request
        self._demand = Demand()
        self._subscribers = Subscribers(self._demand)
        self._task: asyncio.Task[StreamResult] | None = None
        self._begun = False
        self._cancelling = False
        self._completed = False
        self._iterated = False
        self._error: Exception | None = None
        self._number = 1
        self._ledger = Ledger()
        self._delivered = Delivered(pipeline.nothing, pipeline.schema)

    # Watching

    def subscribe(self, sink: Sink, overflow: Overflow = "hold") -> DisposableBase:
        """Call `sink` with each event.

        Args:
            sink: A function of an event, sync or async. One that raises is reported to the
                loop's exception handler and hurts neither the run nor the others.
            overflow: What a full mailbox of an async sink does: `"hold"` the source back, so
                that nothing is lost, or `"drop"` the oldest event.

        Returns:
            Dispose of it to unsubscribe.

        Raises:
            UsageError: If `sink` is no function.
            RunError: If the run is over.
        """
        if self._completed:
            message = "the run is over; subscribe before it is driven"
            raise RunError(message)
        return Disposable(self._subscribers.add(sink, overflow))

    @property
    def events(self) -> Observable[BaseEvent]:
        """The events as a hot observable: subscribing does not start the run."""
        return as_observable(self.subscribe, lambda: self._error)

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """Who judges: the originals, which a run never touches."""
        return self._pipeline.requirements

    @property
    def text(self) -> str:
        """What has been delivered so far and still stands; of sound, nothing."""
        return self._delivered.text

    @property
    def audio(self) -> bytes | None:
        """The sound that has been delivered so far and still stands; `None` of text."""
        raw = self._delivered.raw
        return raw if isinstance(raw, bytes) else None

    # Driving

    def __aiter__(self) -> AsyncIterator[BaseEvent]:
        if self._iterated:
            message = "a run can be iterated once; use subscribe() to watch it from two places"
            raise RunError(message)
        self._iterated = True
        return self._iterate()

    async def _iterate(self) -> AsyncGenerator[BaseEvent]:
        inbox = self._subscribers.inbox()
        task = self._started()
        task.add_done_callback(lambda _: inbox.close())
        try:
            async for event in inbox:
                yield event
            await self._ended(task)
        finally:
            await self.aclose()

    async def chunks(self) -> AsyncGenerator[Chunk]:
        """The delivered chunks: drives the run, as ``async for`` over its events does.

        With a repair that restarts, chunks of a rejected attempt have been yielded before; watch
        for `RetryEvent` in the events to take them back.
        """
        async with streamcontext(self) as events:
            async for event in events:
                if isinstance(event, ChunkEvent):
                    yield event.chunk()

    def __await__(self) -> Generator[Any, None, StreamResult]:
        return self._ended(self._started()).__await__()

    def cancel(self) -> Cancellation:
        """Stop generating. The run completes with `success` false.

        Cancels at once, and may be called from a subscriber.

        Returns:
            To be awaited by whoever wants to know that the backend is closed; not by a
            subscriber, for whom the run waits.
        """
        self._request_cancel()
        return Cancellation(self._task)

    async def aclose(self) -> None:
        """Cancel what is left of the run and wait until the backend is closed.

        Raises nothing of the run's: who leaves does not ask how it ends, and an exception that
        ended it has been told in an `ErrorEvent`.
        """
        self._request_cancel()
        if self._task is not None and not self._task.done():
            with suppress(Exception):
                await self._ended(self._task)

    async def __aenter__(self) -> Run:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def _started(self) -> asyncio.Task[StreamResult]:
        loop = asyncio.get_running_loop()
        if self._task is None:
            self._pipeline.enter(loop)
            self._task = loop.create_task(self._main())
            self._task.add_done_callback(self._left)
        elif self._task.get_loop() is not loop:
            message = "a run belongs to the event loop that started it; start another one here"
            raise RunError(message)
        return self._task

    def _request_cancel(self) -> None:
        """Cancel what is left: the attempts, or the wait for slow subscribers after them."""
        if self._completed:
            self._subscribers.hurry()
        elif not self._cancelling:
            self._cancelling = True
            if self._task is not None and self._begun:
                self._task.cancel()

    async def _ended(self, task: asyncio.Task[StreamResult]) -> StreamResult:
        """Wait for the run; a cancellation of whoever waits cancels it, and waits on."""
        if self._subscribers.handles(asyncio.current_task()):
            message = "a subscriber cannot wait for the run, which waits for its subscribers"
            raise RunError(message)
        interrupted: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as cancelled:
                interrupted = cancelled
                self._request_cancel()
        if interrupted is not None:
            if not task.cancelled():
                task.exception()  # seen: the cancellation goes first
            raise interrupted
        return task.result()

    def _left(self, task: asyncio.Task[StreamResult]) -> None:
        self._pipeline.leave()
        if not self._completed:  # cancelled before it took its first step
            self._complete(success=False)
        if not task.cancelled():
            task.exception()  # seen: an observable or a subscriber may be the only one to care

    # Running

    async def _main(self) -> StreamResult:
        self._begun = True
        success = False
        interrupted: asyncio.CancelledError | None = None
        try:
            told = {
                "model": self._pipeline.backend.model,
                "requirements": tuple(r.name for r in self._pipeline.requirements),
                "chunking": describe_chunking(self._pipeline.chunking),
            }
            self._emit(StartedEvent, told)
            success = not self._cancelling and await self._attempts()
        except asyncio.CancelledError as cancelled:
            interrupted = cancelled
        except Exception as error:  # noqa: BLE001  told to subscribers, then raised below
            self._error = error
            self._emit(ErrorEvent, {"exception_type": type(error).__name__, "detail": str(error)})
        self._complete(success=success)
        if interrupted is not None:
            self._subscribers.hurry()
        await self._subscribers.finish()
        try:
            if interrupted is not None and not self._cancelling:
                raise interrupted
            if self._error is not None:
                raise self._error
        finally:
            interrupted = None  # its traceback holds this frame, and so the whole run
        delivered = self._delivered
        return self._ledger.result(delivered.raw, delivered.parsed(), success=success)

    async def _attempts(self) -> bool:
        """Attempt after attempt, until one succeeds or the budget is spent."""
        retry, backend = self._pipeline.retry, self._pipeline.backend
        continues = retry is not None and retry.continues(supports_prefix=backend.supports_prefix)
        checkpoints = Checkpoints() if continues else None
        request, index, kept_tokens = self._request, 0, 0
        while True:
            attempt = await self._generate(request, index, checkpoints)
            if not attempt.failures:
                # An operator that has had enough ends a stream before anything is validated.
                return attempt.ended_naturally
            if retry is None or self._number >= retry.loop_budget:
                return False
            prefix = None
            index = 0
            if checkpoints is not None and attempt.may_continue:
                prefix, index = attempt.text[: attempt.released_to], attempt.next_index
                kept_tokens += attempt.standing_tokens
                checkpoints.rewind()
            else:
                # Nothing of what was delivered stands.
                self._delivered.clear()
                self._ledger.discard()
                kept_tokens = 0
                if checkpoints is not None:
                    checkpoints.reset()
            self._number += 1
            told = {
                "reason": "; ".join(str(failure) for failure in attempt.failures),
                "failures": attempt.failures,
                "mode": "restart" if prefix is None else "continue",
                "keep_chunks": self._delivered.chunks,
            }
            self._emit(RetryEvent, told)
            request = retry.request(
                self._request,
                request,
                attempt.failures,
                prefix=prefix,
                kept_tokens=kept_tokens,
                text=attempt.text if isinstance(attempt.text, str) else "",
            )
            if (pause := retry.pause(self._number)) > 0:
                await asyncio.sleep(pause)

    async def _generate(
        self, request: GenerationRequest, index: int, checkpoints: Checkpoints | None
    ) -> Attempt:
        attempt = Attempt(self._pipeline, request, self._emit, index=index, checkpoints=checkpoints)
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._ledger.add(attempt)

        def deliver(chunk: Chunk) -> None:
            self._delivered.add(chunk)
            attempt.deliver(chunk)
            for path, value in self._delivered.values(chunk):
                self._emit(PartialObjectEvent, {"path": path, "value": value})

        try:
            async with Subscription(attempt.delivered(), deliver, self._demand) as subscription:
                await subscription.completed()
        finally:
            attempt.ended()
            self._ledger.ended(loop.time() - began)
        return attempt

    # Telling

    def _emit(self, event: type[BaseEvent], told: dict[str, Any]) -> None:
        if self._subscribers.listening:
            self._subscribers.publish(event.made(self.run_id, self._number, told))

    def _complete(self, *, success: bool) -> None:
        self._completed = True
        told = {
            "success": success,
            "full_text": self.text,
            "attempts_used": len(self._ledger),
            "usage": self._ledger.usage(success=success),
        }
        self._emit(CompletedEvent, told)
