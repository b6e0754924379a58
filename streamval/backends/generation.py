"""The generation behind a `ModelOutputThunk`. It starts when it is first awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING

from reactivex import Observable

from streamval.aio.gate import Gate
from streamval.aio.inbox import Inbox
from streamval.bridge import Subscription
from streamval.errors import RunError
from streamval.types.thunk import GenerationMetadata, already_computed
from streamval.types.transcript import Transcript

if TYPE_CHECKING:
    from opentelemetry.trace import Span


class Generation:
    """Generates once, for one task that reads the stream and any number of tasks that await the text.

    Args:
        known: The metadata, which is updated during the generation.
        deltas: Makes the observable of the text.
    """

    def __init__(self, known: GenerationMetadata, deltas: Callable[[], Observable[str]]) -> None:
        self.value: str | None = None
        self._known = known
        self._deltas = deltas
        self._text = Transcript("")
        self._inbox: Inbox[str] | None = None
        self._subscription: Subscription | None = None
        self._waiting = 0
        self._span: Span | None = None
        self._error: BaseException | None = None
        self._done = asyncio.Event()

    async def avalue(self) -> str:
        """Wait for the text; see `ModelOutputThunk.avalue`."""
        if self.value is None and self._error is None:
            await self._wait()
        if self._error is not None:
            raise self._error
        return self.value or ""

    def astream(self) -> AsyncGenerator[str]:
        """Return the pieces of text as they come; see `ModelOutputThunk.astream`."""
        self._check_stream()
        return self._stream()

    async def cancel(self) -> None:
        """Stop; see `ModelOutputThunk.cancel_generation`."""
        if self._done.is_set():
            return
        self._known.cancelled = True
        if self._inbox is not None:
            self._inbox.clear()
            self._inbox.close()
        try:
            if self._subscription is not None:
                await self._subscription.__aexit__(None, None, None)
        finally:
            self._end()

    def _check_stream(self) -> None:
        if self._inbox is not None or self._subscription is not None:
            if self.value is not None:
                raise already_computed()
            raise RunError("an output's stream may have only one consumer, and it has one already")

    async def _wait(self) -> None:
        self._waiting += 1
        try:
            if self._subscription is None and not self._done.is_set():
                await self._start(None, None)
            if self._inbox is not None:
                self._inbox.unbound()
            await self._done.wait()
        except asyncio.CancelledError:
            if self._waiting == 1 and self._inbox is None:
                await self.cancel()
            raise
        finally:
            self._waiting -= 1

    async def _stream(self) -> AsyncGenerator[str]:
        if self.value is not None:  # cancelled before it began
            return
        self._check_stream()  # another consumer may have started since
        gate = Gate()
        inbox: Inbox[str] = Inbox(gate)
        await self._start(inbox, gate)
        try:
            async for text in inbox:
                yield text
            if self._error is not None:
                raise self._error
        finally:
            self._inbox = None
            inbox.clear()
            if not self._waiting:
                await self.cancel()

    async def _start(self, inbox: Inbox[str] | None, gate: Gate | None) -> None:
        from opentelemetry import trace  # only where something is generated

        self._inbox = inbox
        self._span = trace.get_tracer("streamval").start_span("streamval.generate")
        self._span.set_attribute("gen_ai.request.model", self._known.model)
        subscription = self._subscription = Subscription(self._deltas(), self._take, gate)
        await subscription.__aenter__()
        subscription.when_ended(self._end)

    def _take(self, text: str) -> None:
        self._known.deltas += 1
        self._text.write(text)
        self._text.compact()
        if self._inbox is not None:
            self._inbox.put(text)

    def _end(self) -> None:
        """Note the end of the generation, natural or cancelled. Only the first call counts."""
        if self._done.is_set():
            return
        if self._subscription is not None and not self._known.cancelled:
            self._error = self._subscription.error()
        if self._error is None:
            self.value = self._text.getvalue()
        self._done.set()
        if self._inbox is not None:
            self._inbox.close()
        if self._span is not None:
            self._end_span(self._span)

    def _end_span(self, span: Span) -> None:
        from opentelemetry.trace import StatusCode  # loaded by now

        span.set_attribute("streamval.cancelled", self._known.cancelled)
        if self._known.usage is not None:
            tokens = self._known.usage.completion_tokens
            span.set_attribute("gen_ai.usage.output_tokens", tokens)
        if self._error is not None:
            if isinstance(self._error, Exception):
                span.record_exception(self._error)
            span.set_status(StatusCode.ERROR, str(self._error))
        span.end()
