"""`stream_with_chunking`: one attempt, judged while it is written, on an output of your own."""

from __future__ import annotations

import asyncio
import sys
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Self

from aiostream import streamcontext

from streamval.aio.gate import Gate
from streamval.aio.inbox import Inbox
from streamval.backends.base import Backend, GenerationRequest, Prompt, as_messages
from streamval.backends.default import as_backend
from streamval.backends.options import stall_timeout_of
from streamval.chunkers.chunking import Chunking
from streamval.errors import RunError, UsageError
from streamval.events import ChunkEvent, Event, QuickCheckEvent, StreamingDoneEvent
from streamval.pipeline.pipeline import Pipeline
from streamval.pipeline.run import Run
from streamval.requirements.base import Requirement
from streamval.types.context import Context
from streamval.types.deltas import Delta
from streamval.types.results import PartialValidationResult, StreamResult, ValidationResult
from streamval.types.thunk import GenerationMetadata, ModelOutputThunk


async def stream_with_chunking(
    action: Prompt | ModelOutputThunk,
    backend: Backend | str | None,
    ctx: Context,
    *,
    requirements: Sequence[Requirement | str] | None = None,
    chunking: Chunking = "sentence",
    validation_backend: Backend | str | None = None,
    format: type[Any] | None = None,
    model_options: Mapping[str, Any] | None = None,
) -> StreamChunkingResult:
    """Generate, cut, judge each chunk with every requirement, and stop at the first failure.

    A lower-level interface than `Pipeline`: one attempt without repair; the caller retries. It
    begins at once, even if nothing consumes it, and goes on until its end, or until it is left: by ``async with``,
    which returns when the backend is closed, or because nothing refers to the stream any more.

    Args:
        action: The prompt, which follows the visible turns of `ctx`; or an output that
            is not computed yet, whose stream is then consumed.
        backend: The backend that generates.
        ctx: The conversation so far.
        requirements: Copies of them judge, made before anything is generated.
        chunking: How the stream is cut.
        validation_backend: The backend that requirements ask, if not `backend`.
        format: A pydantic model that the output should be an instance of.
        model_options: For the generation; `stall_timeout` among them.

    Returns:
        The stream.

    Raises:
        UsageError: If an argument cannot work, or the output is computed already.
        Exception: What the `__copy__` of a requirement raises; nothing was generated then.

    Example:
        >>> from streamval import ScriptedBackend
        >>> from streamval.types import SimpleContext
        >>> async def main():
        ...     backend = ScriptedBackend("One. Two.")
        ...     async with await stream_with_chunking("Count.", backend, SimpleContext()) as result:
        ...         async for chunk in result.astream():
        ...             print(chunk)
        ...         await result.acomplete()
        ...     print(result.completed, result.as_thunk)
        >>> asyncio.run(main())
        One.
        Two.
        True One. Two.
    """
    speaker = as_backend(backend)
    timeout, options = stall_timeout_of(model_options or {})
    speaker.check_options(options)
    before = ctx
    if isinstance(action, ModelOutputThunk):
        if action.is_computed():
            raise _computed()
    else:
        for turn in as_messages(action):
            ctx = ctx.add(turn)

    async def speak() -> ModelOutputThunk:
        if isinstance(action, ModelOutputThunk):
            return action
        thunk, _ = await speaker.generate_from_context(
            action, before, format=format, model_options={**options, "stall_timeout": None}
        )
        return thunk

    speaking = _Speaking(speaker.model, speak)
    if isinstance(action, ModelOutputThunk):
        speaking.model = action.generation.model
    pipeline = Pipeline(
        speaking,
        requirements=requirements,
        chunking=chunking,
        validation_backend=validation_backend or speaker.for_judges(options),
        stall_timeout=timeout,
    )
    result = StreamChunkingResult(
        pipeline.start_request(GenerationRequest(ctx.messages)), speaking.known
    )
    await result.begun(speaking.asked)
    return result


class StreamChunkingResult:
    """A stream that is being judged. Made by `stream_with_chunking`.

    `astream` and `events` have one consumer each, and may be consumed at the same time, now or
    later, or not at all: unconsumed items are kept, at most the length of the output.

    An exception that ends the stream is raised once, by `astream` or by `acomplete`: whichever
    comes first.

    It is an async context manager: leaving it closes the backend. So does dropping it.
    """

    def __init__(self, run: Run, known: Callable[[], GenerationMetadata]) -> None:
        self._run = run
        self._known = known
        self._kept = kept = _Kept(run.requirements)
        self._taken: set[str] = set()
        run.subscribe(kept.take)
        self._task = asyncio.ensure_future(run)
        self._task.add_done_callback(kept.end)
        weakref.finalize(self, run.cancel).atexit = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cancel()

    async def begun(self, asked: asyncio.Event) -> None:
        """Wait until the backend is `asked`.

        Raises:
            Exception: What ended the stream before that, such as a requirement's `__copy__`.
        """
        waiting = asyncio.ensure_future(asked.wait())
        try:
            await asyncio.wait([waiting, self._task], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.cancel()
            raise
        finally:
            waiting.cancel()
        if not asked.is_set():
            await self.acomplete()

    def astream(self) -> AsyncGenerator[str]:
        """Return the validated chunks, as they come.

        Raises:
            RunError: If they have a consumer already.
            Exception: What ended the stream, after the chunks before it.
        """
        self._claim("astream()")
        return self._consume()

    def events(self) -> AsyncIterator[Event]:
        """Return the events, up to `CompletedEvent`. An exception is among them as an `ErrorEvent`.

        Raises:
            RunError: If they have a consumer already.
        """
        self._claim("events()")
        return self._consume_events()

    async def acomplete(self) -> None:
        """Wait until all is judged. Harmless to await again.

        Raises:
            Exception: What ended the stream, unless `astream` has raised it.
            asyncio.CancelledError: If the stream was cancelled from outside, or this task is.
        """
        await asyncio.wait([self._task])
        self._raise_once()

    async def cancel(self) -> None:
        """Stop generating, and wait until the backend is closed. The iterators of consumers end."""
        await self._run.cancel()

    @property
    def completed(self) -> bool:
        """Whether the stream ended naturally, without a failed chunk or an exception."""
        return self._kept.ended_naturally and self._kept.result is not None

    @property
    def full_text(self) -> str:
        """The delivered text so far: only judged text that did not fail."""
        return self._run.text if self._kept.result is None else self._kept.result.full_text

    @property
    def streaming_failures(self) -> list[tuple[Requirement, PartialValidationResult]]:
        """The requirements that failed a chunk, each with its verdict."""
        return list(self._kept.failed)

    @property
    def failure_reason(self) -> str | None:
        """Why it stopped early; `None` where it did not."""
        reasons = [
            f"{requirement.name}: {verdict.reason}" if verdict.reason else requirement.name
            for requirement, verdict in self._kept.failed
        ]
        return "; ".join(reasons) or None

    @property
    def final_validations(self) -> list[ValidationResult]:
        """The judgements of the whole output; empty after an early stop."""
        return list(self._kept.result.validations) if self._kept.result else []

    @property
    def as_thunk(self) -> ModelOutputThunk:
        """The computed output, with the metadata of its generation.

        Its model, usage, finish reason, and whether it was cancelled: by a failure, or by you.

        Raises:
            RunError: Before the stream has ended.
        """
        if not self._task.done():
            raise RunError("the stream has not ended yet; await acomplete() first")
        return ModelOutputThunk(self.full_text, self._known())

    def _claim(self, name: str) -> None:
        if name in self._taken:
            raise RunError(f"{name} may have only one consumer, and it has one already")
        self._taken.add(name)

    async def _consume(self) -> AsyncGenerator[str]:
        async for text in self._kept.chunks:
            yield text
        self._raise_once()

    async def _consume_events(self) -> AsyncGenerator[Event]:
        async for event in self._kept.events:
            yield event

    def _raise_once(self) -> None:
        error, self._kept.error = self._kept.error, None
        if error is not None:
            raise error


class _Kept:
    """What a run has delivered. Apart from the handle, which the run must not keep alive."""

    def __init__(self, requirements: tuple[Requirement, ...]) -> None:
        self.failed: list[tuple[Requirement, PartialValidationResult]] = []
        self.chunks: Inbox[str] = Inbox(Gate(), sys.maxsize)
        self.events: Inbox[Event] = Inbox(Gate(), sys.maxsize)
        self.ended_naturally = False
        self.result: StreamResult | None = None
        self.error: BaseException | None = None
        self._requirements = requirements

    def take(self, event: Event) -> None:
        """Keep what consumers will ask for."""
        self.events.put(event)
        if isinstance(event, ChunkEvent):
            self.chunks.put(event.text)
        elif isinstance(event, StreamingDoneEvent):
            self.ended_naturally = True
        elif isinstance(event, QuickCheckEvent) and not event.passed:
            judged = zip(self._requirements, event.results, strict=True)
            self.failed = [(r, v) for r, v in judged if v is not None and v.success == "fail"]

    def end(self, task: asyncio.Future[StreamResult]) -> None:
        """Keep the result of the run, or its error."""
        if task.cancelled():
            self.error = asyncio.CancelledError("the stream was cancelled from outside")
        elif (error := task.exception()) is not None:
            self.error = error
        else:
            self.result = task.result()
        self.chunks.close()
        self.events.close()


def _computed() -> UsageError:
    return UsageError(
        "the output is computed already, so there is no stream to judge; use validate() on it, or a "
        "backend that streams"
    )


class _Speaking(Backend):
    """A backend that yields an output which is being generated; closing it cancels that output.

    Args:
        model: Its name.
        speak: Makes the output when it is needed.

    Attributes:
        asked: Set when there is an output that is being generated.
    """

    def __init__(self, model: str, speak: Callable[[], Awaitable[ModelOutputThunk]]) -> None:
        self.model = model
        self.asked = asyncio.Event()
        self._speak = speak
        self._thunk: ModelOutputThunk | None = None

    def known(self) -> GenerationMetadata:
        """Return the metadata of the generation."""
        return self._thunk.generation if self._thunk else GenerationMetadata(self.model)

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Delta]:
        """Yield the output's stream, which has one consumer."""
        self._thunk = thunk = await self._speak()
        if thunk.is_computed():
            raise _computed()
        self.asked.set()
        known = thunk.generation
        async with streamcontext(thunk.astream()) as deltas:
            async for text in deltas:
                yield Delta(text, usage=known.usage)
        yield Delta(
            usage=known.usage, finish_reason=known.finish_reason, refusal=known.refusal or None
        )
