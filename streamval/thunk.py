"""`ModelOutputThunk`: a model's output that may still be on its way."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamval.bridge import Subscription
from streamval.errors import RunError
from streamval.scope import Demand, Inbox
from streamval.transcript import Transcript

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from opentelemetry.trace import Span
    from reactivex import Observable

    from streamval.results import Usage


@dataclass(slots=True)
class GenerationMetadata:
    """What is known of a generation besides its text.

    Attributes:
        model: Who generates.
        usage: Tokens, as the backend reports them; `None` where it does not.
        finish_reason: Why the model stopped, once it has.
        deltas: How many pieces have come.
        cancelled: Whether it was cancelled before its end.
    """

    model: str = ""
    usage: Usage | None = None
    finish_reason: str | None = None
    deltas: int = 0
    cancelled: bool = False


class ModelOutputThunk:
    """A model's output: computed already, or generated when somebody first asks for it.

    Lazy: nothing is generated before `avalue` or `astream` is first awaited. The stream has one
    consumer, who holds the model back by being slow; `avalue` may be awaited from anywhere, by any
    number of tasks, also while the stream is consumed, which then holds nothing back any more.

    Args:
        value: The text, where it is there already.

    Attributes:
        generation: What is known of the generation besides its text.

    Example:
        >>> import asyncio
        >>> from streamval import Context, ScriptedBackend
        >>> async def main():
        ...     thunk, _ = await ScriptedBackend("Hello.").generate_from_context("Hi", Context())
        ...     print(thunk.is_computed(), await thunk.avalue(), thunk.is_computed())
        >>> asyncio.run(main())
        False Hello. True
    """

    def __init__(self, value: str | None = None) -> None:
        self.generation = GenerationMetadata()
        self._value = value
        self._make: Callable[[ModelOutputThunk], Observable[str]] | None = None
        self._text = Transcript("")
        self._inbox: Inbox[str] | None = None
        self._subscription: Subscription | None = None
        self._waiting = 0
        self._span: Span | None = None
        self._error: Exception | None = None
        self._done = asyncio.Event()

    @classmethod
    def generating(
        cls, model: str, deltas: Callable[[ModelOutputThunk], Observable[str]]
    ) -> ModelOutputThunk:
        """A thunk that is not computed yet.

        Args:
            model: Who generates.
            deltas: Makes the observable of its text; given the thunk, for its `generation`.
        """
        thunk = cls()
        thunk.generation.model = model
        thunk._make = deltas
        return thunk

    @property
    def value(self) -> str | None:
        """The text, or `None` while it is not all there."""
        return self._value

    def is_computed(self) -> bool:
        """Whether the text is all there (or all that will come, after a cancellation)."""
        return self._value is not None

    def __str__(self) -> str:
        return self._value if isinstance(self._value, str) else ""

    def __repr__(self) -> str:
        return f"ModelOutputThunk({self._value!r})"

    async def avalue(self) -> str:
        """The text, generated now if it has not been.

        Raises:
            Exception: What the backend raises; nothing of what it said before is a value.
            asyncio.CancelledError: If this task is cancelled. Where nobody else waits for the
                output, the backend is closed first.
        """
        if self._value is None and self._error is None:
            if self._make is None:
                message = "this output has neither a value nor a backend to generate it"
                raise RunError(message)
            await self._wait()
        if self._error is not None:
            raise self._error
        return self._value or ""

    def astream(self) -> AsyncGenerator[str]:
        """The pieces of text as they come. For one consumer; leaving early cancels the rest.

        Raises:
            RunError: If the stream has a consumer already, or the text is all there.
        """
        self._check_stream()
        return self._stream()

    def __aiter__(self) -> AsyncIterator[str]:
        return self.astream()

    async def cancel_generation(self) -> None:
        """Stop generating, and return when the backend is closed.

        Harmless on an output that is all there, or was cancelled before. What waits unread is
        dropped, the consumer of the stream sees its end, and the telemetry span is ended. The
        value is what had come so far.

        Raises:
            asyncio.CancelledError: If this task is cancelled meanwhile; the backend is closed
                and the span ended before it is raised.
        """
        if self._done.is_set() or self.is_computed():
            return
        self.generation.cancelled = True
        if self._inbox is not None:
            self._inbox.clear()
            self._inbox.close()
        try:
            if self._subscription is not None:
                await self._subscription.__aexit__(None, None, None)
        finally:
            self._end()

    def _check_stream(self) -> None:
        if self._inbox is not None or self._subscription is not None or self._make is None:
            message = (
                "the output is all there; read its value"
                if self.is_computed()
                else "an output's stream has one consumer, and this one is taken"
            )
            raise RunError(message)

    async def _wait(self) -> None:
        self._waiting += 1
        try:
            if self._subscription is None and not self._done.is_set():
                await self._start(None)
            if self._inbox is not None:
                self._inbox.open()
            await self._done.wait()
        except asyncio.CancelledError:
            if self._waiting == 1 and self._inbox is None:
                await self.cancel_generation()
            raise
        finally:
            self._waiting -= 1

    async def _stream(self) -> AsyncGenerator[str]:
        if self.is_computed():  # cancelled before it began
            return
        self._check_stream()  # another one may have begun since
        demand = Demand()
        inbox: Inbox[str] = Inbox(demand)
        await self._start(inbox, demand)
        try:
            async for text in inbox:
                yield text
            if self._error is not None:
                raise self._error
        finally:
            self._inbox = None
            inbox.clear()
            if not self._waiting:
                await self.cancel_generation()

    async def _start(self, inbox: Inbox[str] | None, demand: Demand | None = None) -> None:
        assert self._make is not None
        from opentelemetry import trace  # noqa: PLC0415  only where something is generated

        self._inbox = inbox
        self._span = trace.get_tracer("streamval").start_span("streamval.generate")
        self._span.set_attribute("gen_ai.request.model", self.generation.model)
        subscription = self._subscription = Subscription(self._make(self), self._take, demand)
        await subscription.__aenter__()
        subscription.when_ended(self._end)

    def _take(self, text: str) -> None:
        self.generation.deltas += 1
        self._text.write(text)
        self._text.compact()
        if self._inbox is not None:
            self._inbox.put(text)

    def _end(self) -> None:
        """The generation is over, of itself or cancelled: once, whoever comes first."""
        if self._done.is_set():
            return
        if self._subscription is not None and not self.generation.cancelled:
            self._error = self._subscription.error()
        if self._error is None:
            self._value = self._text.getvalue()
        self._done.set()
        if self._inbox is not None:
            self._inbox.close()
        if self._span is not None:
            self._end_span(self._span)

    def _end_span(self, span: Span) -> None:
        from opentelemetry.trace import StatusCode  # noqa: PLC0415  loaded by now

        span.set_attribute("streamval.cancelled", self.generation.cancelled)
        if self.generation.usage is not None:
            tokens = self.generation.usage.completion_tokens
            span.set_attribute("gen_ai.usage.output_tokens", tokens)
        if self._error is not None:
            span.record_exception(self._error)
            span.set_status(StatusCode.ERROR, str(self._error))
        span.end()
