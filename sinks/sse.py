"""`sse`: a run as server-sent events, for a web framework's streaming response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Literal

from streamval.errors import UsageError
from streamval.events import (
    BaseEvent,
    ChunkEvent,
    CompletedEvent,
    ErrorEvent,
    FullValidationEvent,
    QuickCheckEvent,
    ReasoningEvent,
    RetryEvent,
    StartedEvent,
    StreamingDoneEvent,
    ToolCallEvent,
    VerdictEvent,
)
from streamval.pipeline.run import Run
from streamval.types.messages import ToolCall
from streamval.types.results import PartialValidationResult, ValidationResult
from streamval.wire.answers import Contents, finish_reason, frames
from streamval.wire.completions import Protocol as WireProtocol
from streamval.wire.errors import error_object
from streamval.wire.protocols import WRITERS
from streamval.wire.sse import PING, text_frame

Protocol = Literal["events", "openai", "responses", "anthropic"]

_WIRE: dict[str, WireProtocol] = {
    "openai": "chat",
    "responses": "responses",
    "anthropic": "messages",
}

HEARTBEAT = 15.0
"""Seconds between comments on a silent connection. Most proxies close it after 60 seconds."""


async def sse(
    run: Run, *, protocol: Protocol = "events", heartbeat: float = HEARTBEAT, reasons: bool = False
) -> AsyncGenerator[str]:
    """Drive a run, and yield its events as frames of `text/event-stream`.

    Pass it to a web framework's streaming response. When the client disconnects, the framework closes it,
    and so the backend. An exception that ends the run becomes a frame, and is not raised.

    Args:
        run: A run that has not been started.
        protocol: `"events"`: each event as JSON, named by its type. The others are for clients of other
            libraries: `"openai"` for OpenAI's chat completions, with the reasoning in `reasoning_content`,
            `"responses"` for its Responses, `"anthropic"` for Anthropic's Messages. These have the delivered text
            and reasoning, and calls of tools at the end. They cannot take text back, so a repair that restarts after
            something was sent ends in an error frame. Use a repair that continues.
        heartbeat: Seconds of silence after which a comment is sent, so that no proxy
            closes the connection.
        reasons: Whether to send why a requirement failed, and what an exception said. Both may quote text
            that was withheld, so by default a client gets the names of the requirements.

    Yields:
        Frames, each ending in a blank line.

    Raises:
        UsageError: If the protocol is unknown, or `heartbeat` is not above 0.

    Example:
        >>> from streamval import Pipeline, ScriptedBackend
        >>> async def main():
        ...     run = Pipeline(ScriptedBackend("All is well.")).start("How is it?")
        ...     async for frame in sse(run):
        ...         print(frame.split("\\n")[0])
        >>> asyncio.run(main())
        event: started
        event: chunk
        event: streaming_done
        event: completed

        With FastAPI::

            @app.get("/answer")
            async def answer(prompt: str):
                frames = sv.sse(pipeline.start(prompt))
                return StreamingResponse(frames, media_type="text/event-stream")
    """
    if protocol not in ("events", *_WIRE):
        raise UsageError(
            f"protocol must be 'events', 'openai', 'responses' or 'anthropic', not {protocol!r}"
        )
    if heartbeat <= 0:
        raise UsageError(f"heartbeat must be above 0 seconds, not {heartbeat!r}")
    answer = None if protocol == "events" else _AsAnswer(_WIRE[protocol])
    frames_of = _as_event if answer is None else answer.frames
    shown: Callable[[BaseEvent], BaseEvent] = (lambda event: event) if reasons else without_reasons
    events = aiter(run)
    coming: asyncio.Future[BaseEvent] | None = None
    over = False
    try:
        while not over:
            coming = coming or asyncio.ensure_future(anext(events))
            await asyncio.wait([coming], timeout=heartbeat)
            if not coming.done():
                yield PING if answer is None else answer.ping
                continue
            event, coming = coming.result(), None
            over = isinstance(event, CompletedEvent)
            for one in frames_of(shown(event)):
                yield one
    except _TakenBackError as taken_back:
        yield str(taken_back)
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.wait([coming])
        await run.aclose()


def without_reasons(event: BaseEvent) -> BaseEvent:
    """Return an event without what may quote text that was withheld.

    Example:
        >>> event = ErrorEvent(run_id="r", attempt=1, exception_type="ValueError", detail="no 'x'")
        >>> without_reasons(event).detail
        'the answer could not be finished'
    """
    match event:
        case QuickCheckEvent():
            said: dict[str, object] = {
                "results": tuple(
                    None if one is None else PartialValidationResult(one.success)
                    for one in event.results
                )
            }
        case VerdictEvent():
            said = {"reason": None}
        case FullValidationEvent():
            said = {"results": tuple(ValidationResult(one.result) for one in event.results)}
        case RetryEvent():
            failures = tuple(replace(one, reason=None) for one in event.failures)
            said = {"failures": failures, "reason": "; ".join(map(str, failures))}
        case ErrorEvent():
            said = {"detail": "the answer could not be finished"}
        case _:
            return event
    return event.model_copy(update=said)


def _as_event(event: BaseEvent) -> list[str]:
    return [text_frame(event.model_dump_json(), event.type)]  # type: ignore[attr-defined]


class _TakenBackError(Exception):
    """Raised when a restart takes back text that was sent. Its message is the frame for that."""


class _AsAnswer:
    """A run's events as an answer in the protocol of another library."""

    def __init__(self, protocol: WireProtocol) -> None:
        self._protocol = protocol
        self._sent = 0
        self._calls: list[ToolCall] = []
        self._reason: str | None = None
        self._broken: ErrorEvent | None = None
        self.ping = PING  # until the answer begins

    def frames(self, event: BaseEvent) -> list[str]:
        """Return the frames for an event; most have none.

        Raises:
            _TakenBackError: If a restart takes back what was sent.
        """
        match event:
            case StartedEvent():
                created = int(event.timestamp)
                self._writer = WRITERS[self._protocol](event.run_id, event.model, created, {})
                self.ping = self._writer.ping
                return _as_frames(self._writer.begin())
            case ChunkEvent():
                text = event.separator + event.text
                text = text if self._sent else text.lstrip()
                self._sent += 1
                return _as_frames(self._writer.text(text))
            case ReasoningEvent():
                return _as_frames(self._writer.reasoning(event.separator + event.text))
            case ToolCallEvent():  # sent at the end: a repair may take it back
                self._calls.append(event.call())
            case RetryEvent():
                if event.keep_chunks < self._sent:
                    said = error_object("the answer was taken back", "taken_back")
                    raise _TakenBackError(frames(self._writer.fail(said)))
                self._calls.clear()
            case StreamingDoneEvent():
                self._reason = event.finish_reason
            case ErrorEvent():
                self._broken = event
            case CompletedEvent():
                return self._end(event)
        return []

    def _end(self, event: CompletedEvent) -> list[str]:
        writer, broken = self._writer, self._broken
        if broken is not None:
            return _as_frames(writer.fail(error_object(broken.detail, broken.exception_type)))
        reason = finish_reason(self._reason) if event.success else "content_filter"
        calls = writer.tool_calls(self._calls if event.success else ())
        ends = [*calls, *writer.end(reason, event.usage)]
        return [*_as_frames(ends), *filter(None, [writer.terminator])]


def _as_frames(contents: Contents) -> list[str]:
    return [frames([one]) for one in contents]
