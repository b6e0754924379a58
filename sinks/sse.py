"""`sse`: a run as server-sent events, for a web framework's streaming response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Any, Literal

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
from streamval.types.results import PartialValidationResult, ValidationResult
from streamval.wire.errors import error_object
from streamval.wire.openai_chat import ChatWriter
from streamval.wire.sse import DONE, PING, frame, text_frame

Protocol = Literal["streamval", "openai"]

HEARTBEAT = 15.0
"""Seconds between comments on a silent connection. Most proxies close it after 60 seconds."""


async def sse(
    run: Run,
    *,
    protocol: Protocol = "streamval",
    heartbeat: float = HEARTBEAT,
    reasons: bool = False,
) -> AsyncGenerator[str]:
    """Drive a run, and yield its events as frames of `text/event-stream`.

    Pass it to a web framework's streaming response. When the client disconnects, the framework closes it,
    and so the backend. An exception that ends the run becomes a frame, and is not raised.

    Args:
        run: A run that has not been started.
        protocol: `"streamval"`: each event as JSON, named by its type. `"openai"`: the delivered text
            as OpenAI's ``chat.completion.chunk``s, for OpenAI's clients, with the reasoning in `reasoning_content` and
            calls of tools at the end. This protocol cannot
            take text back, so a repair that restarts after something was sent ends in an error
            frame. Use a repair that continues.
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
    if protocol not in ("streamval", "openai"):
        raise UsageError(f"protocol must be 'streamval' or 'openai', not {protocol!r}")
    if heartbeat <= 0:
        raise UsageError(f"heartbeat must be above 0 seconds, not {heartbeat!r}")
    frames_of = _as_event if protocol == "streamval" else _AsChunks().frames
    shown: Callable[[BaseEvent], BaseEvent] = (lambda event: event) if reasons else without_reasons
    events = aiter(run)
    coming: asyncio.Future[BaseEvent] | None = None
    over = False
    try:
        while not over:
            coming = coming or asyncio.ensure_future(anext(events))
            await asyncio.wait([coming], timeout=heartbeat)
            if not coming.done():
                yield PING
                continue
            event, coming = coming.result(), None
            over = isinstance(event, CompletedEvent)
            for one in frames_of(shown(event)):
                yield one
    except _TakenBackError:
        yield frame(error_object("the answer was taken back", "taken_back"))
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
    """Raised when a restart takes back text that was sent."""


class _AsChunks:
    """A run's events as OpenAI's chunks of a chat completion."""

    def __init__(self) -> None:
        self._sent = 0
        self._calls: list[dict[str, Any]] = []
        self._reason = "stop"
        self._broken: ErrorEvent | None = None

    def frames(self, event: BaseEvent) -> list[str]:
        """Return the frames for an event; most have none.

        Raises:
            _TakenBackError: If a restart takes back text that was sent.
        """
        match event:
            case StartedEvent():
                self._writer = ChatWriter(event.run_id, event.model, int(event.timestamp))
                return [frame(self._writer.text(""))]
            case ChunkEvent():
                text = event.separator + event.text
                text = text if self._sent else text.lstrip()
                self._sent += 1
                return [frame(self._writer.text(text))]
            case ReasoningEvent():
                return [frame(self._writer.reasoning(event.separator + event.text))]
            case ToolCallEvent():  # sent at the end: a repair may take it back
                self._calls.append(event.call().as_dict())
            case RetryEvent():
                if event.keep_chunks < self._sent:
                    raise _TakenBackError
                self._calls.clear()
            case StreamingDoneEvent():
                self._reason = event.finish_reason or "stop"
            case ErrorEvent():
                self._broken = event
            case CompletedEvent():
                return self._end(event)
        return []

    def _end(self, event: CompletedEvent) -> list[str]:
        if self._broken is not None:
            return [frame(error_object(self._broken.detail, self._broken.exception_type))]
        reason = self._reason if event.success else "content_filter"
        calls = [self._writer.tool_calls(self._calls)] if self._calls and event.success else []
        return [*map(frame, calls), *map(frame, self._writer.end(reason, event.usage)), DONE]
