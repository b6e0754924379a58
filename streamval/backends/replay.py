"""`ReplayBackend`: the deltas of a recorded run."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path

from streamval.backends.base import Backend, GenerationRequest
from streamval.backends.recording import read_events
from streamval.errors import BackendError, UsageError
from streamval.events import (
    BaseEvent,
    ChunkEvent,
    CompletedEvent,
    ReasoningEvent,
    RetryEvent,
    StartedEvent,
    StreamingDoneEvent,
    TokenEvent,
    ToolCallEvent,
)
from streamval.types.deltas import Delta, ToolCallDelta


class ReplayBackend(Backend):
    """Replays a recording, attempt by attempt: for trying other requirements on the same output.

    Args:
        path: A file written by the `JSONL` sink. If it was recorded with `emit_tokens=True`, the deltas
            are the model's; otherwise they are the delivered chunks. If the file has several runs, the
            first is replayed.
        speed: 1.0 for the recorded pace, 2.0 for twice as fast, `None` for at once.

    Raises:
        UsageError: If the file cannot be read, is not a recording, or the speed is not above 0.

    Example:
        >>> ReplayBackend("no such file.jsonl")
        Traceback (most recent call last):
        streamval.errors.UsageError: cannot read the recording no such file.jsonl: No such file or directory
    """

    def __init__(self, path: str | Path, *, speed: float | None = 1.0) -> None:
        if speed is not None and speed <= 0:
            raise UsageError(f"speed must be above 0, or None for at once, not {speed}")
        self._speed = speed
        self._pieces: dict[int, list[tuple[float, str | Delta]]] = defaultdict(list)
        chunks: dict[int, list[tuple[float, str | Delta]]] = defaultdict(list)
        ends: dict[int, list[tuple[float, str | Delta]]] = defaultdict(list)
        began: dict[int, float] = {}
        for event in _of_the_first_run(read_events(path)):
            if isinstance(event, (StartedEvent, RetryEvent)):
                began[event.attempt] = event.timestamp
                if isinstance(event, StartedEvent):
                    self.model = event.model
                elif event.mode == "continue":
                    self.supports_prefix = True
            at = event.timestamp - began.get(event.attempt, event.timestamp)
            if (piece := _written(event)) is not None:
                kept = self._pieces if isinstance(event, TokenEvent) else chunks
                kept[event.attempt].append((at, piece))
            elif (end := _end_of(event)) is not None:
                ends[event.attempt].append((at, end))
        self._pieces = self._pieces or chunks
        if not self._pieces:
            raise UsageError(
                f"{path} is not a recording of a run: it has neither tokens nor chunks"
            )
        for attempt, deltas in ends.items():
            self._pieces[attempt] += deltas

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Delta]:
        """Yield the deltas of this attempt."""
        if request.attempt not in self._pieces:
            raise BackendError(
                f"the recording has no attempt {request.attempt}; it has {len(self._pieces)}, so "
                "allow fewer, or record the run again"
            )
        loop = asyncio.get_running_loop()
        began = loop.time()
        for at, piece in self._pieces[request.attempt]:
            if self._speed is not None:
                wait = began + at / self._speed - loop.time()
                if wait > 0:
                    await asyncio.sleep(wait)
            yield piece


def _of_the_first_run(events: Iterable[BaseEvent]) -> Iterator[BaseEvent]:
    run_id = None
    for event in events:
        run_id = run_id or event.run_id
        if event.run_id == run_id:
            yield event


def _end_of(event: BaseEvent) -> Delta | None:
    """Return what the backend reported at the end of an attempt. The usage of several attempts is known in all only."""
    if isinstance(event, StreamingDoneEvent) and event.finish_reason is not None:
        return Delta(finish_reason=event.finish_reason)
    if isinstance(event, CompletedEvent) and event.attempts_used == 1:
        return Delta(usage=event.usage) if event.usage.source == "backend" else None
    return None


def _written(event: BaseEvent) -> str | Delta | None:
    """Return the delta of an event; `None` of most."""
    match event:
        case TokenEvent(channel="reasoning"):
            return Delta(reasoning=event.text)
        case TokenEvent():
            return event.text if event.tool_call is None else Delta(tool_call=event.tool_call)
        case ChunkEvent():
            return event.separator + event.text
        case ReasoningEvent():
            return Delta(reasoning=event.separator + event.text)
        case ToolCallEvent():
            call = ToolCallDelta(event.index, event.id, event.name, event.raw)
            return Delta(tool_call=call)
    return None
