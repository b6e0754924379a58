"""`sse`: a run as server-sent events, for a web framework's streaming response."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Literal

from streamval.errors import StreamvalError, UsageError
from streamval.events import (
    ChunkEvent,
    CompletedEvent,
    ErrorEvent,
    RetryEvent,
    StartedEvent,
    StreamingDoneEvent,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from streamval.events import BaseEvent
    from streamval.pipeline.run import Run

Protocol = Literal["streamval", "openai"]

HEARTBEAT = 15.0
"""Seconds: proxies close connections that are silent for longer, most after 60."""


async def sse(
    run: Run, *, protocol: Protocol = "streamval", heartbeat: float = HEARTBEAT
) -> AsyncGenerator[str]:
    """Drive a run, and give its events as frames of `text/event-stream`.

    Hand it to a web framework's streaming response. When the client goes, the framework closes it,
    and the backend with it. What ends the run with an exception is a frame, and is not raised.

    Args:
        run: A run that has not been started.
        protocol: `"streamval"`: each event as JSON, named by its type. `"openai"`: the delivered text
            as OpenAI's ``chat.completion.chunk``s, for clients that know nothing of us. These cannot
            take text back, so a repair that restarts after something was sent ends in an error
            frame: let it continue, or have it restart only before.
        heartbeat: Seconds of silence after which a comment is sent, so that nothing between here
            and the client takes the connection for dead.

    Yields:
        Frames, each ending in a blank line.

    Raises:
        UsageError: If the protocol is neither, or `heartbeat` is not above 0.

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
        message = f"protocol must be 'streamval' or 'openai', not {protocol!r}"
        raise UsageError(message)
    if heartbeat <= 0:
        message = f"heartbeat must be above 0 seconds, not {heartbeat!r}"
        raise UsageError(message)
    frames = _as_event if protocol == "streamval" else _AsChunks().frames
    events = aiter(run)
    coming: asyncio.Future[BaseEvent] | None = None
    over = False
    try:
        while not over:
            coming = coming or asyncio.ensure_future(anext(events))
            await asyncio.wait([coming], timeout=heartbeat)
            if not coming.done():
                yield ": still there\n\n"
                continue
            event, coming = coming.result(), None
            over = isinstance(event, CompletedEvent)
            for frame in frames(event):
                yield frame
    except TakenBackError:
        yield _data({"error": {"message": "the answer was taken back", "type": "taken_back"}})
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.wait([coming])
        await run.aclose()


def _as_event(event: BaseEvent) -> list[str]:
    return [f"event: {event.type}\ndata: {event.model_dump_json()}\n\n"]  # type: ignore[attr-defined]


def _data(content: Any) -> str:
    return f"data: {json.dumps(content)}\n\n"


class TakenBackError(StreamvalError):
    """Text that was sent no longer stands."""


class _AsChunks:
    """A run's events as OpenAI's chunks of a chat completion."""

    def __init__(self) -> None:
        self._head: dict[str, Any] = {}
        self._sent = 0
        self._reason = "stop"
        self._broken: ErrorEvent | None = None

    def frames(self, event: BaseEvent) -> list[str]:
        """What of an event is sent: nothing, of most.

        Raises:
            TakenBackError: If a restart takes back what was sent.
        """
        match event:
            case StartedEvent():
                self._head = {
                    "id": f"chatcmpl-{event.run_id}",
                    "object": "chat.completion.chunk",
                    "created": int(event.timestamp),
                    "model": event.model,
                }
                return [self._chunk({"role": "assistant", "content": ""})]
            case ChunkEvent():
                said = event.separator + event.text
                said = said if self._sent else said.lstrip()
                self._sent += 1
                return [self._chunk({"content": said})]
            case RetryEvent() if event.keep_chunks < self._sent:
                raise TakenBackError
            case StreamingDoneEvent():
                self._reason = event.finish_reason or "stop"
            case ErrorEvent():
                self._broken = event
            case CompletedEvent():
                return self._end(event)
        return []

    def _end(self, event: CompletedEvent) -> list[str]:
        if self._broken is not None:
            error = {"message": self._broken.detail, "type": self._broken.exception_type}
            return [_data({"error": error})]
        read, written = event.usage.prompt_tokens or 0, event.usage.completion_tokens
        usage = {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
        }
        return [
            self._chunk({}, self._reason if event.success else "content_filter"),
            _data({**self._head, "choices": [], "usage": usage}),
            "data: [DONE]\n\n",
        ]

    def _chunk(self, delta: dict[str, str], reason: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return _data({**self._head, "choices": [choice]})
