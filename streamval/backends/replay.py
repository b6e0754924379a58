"""`ReplayBackend`: a recorded run, said again."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

from streamval.backends.base import Backend
from streamval.backends.recording import read_events
from streamval.errors import BackendError, UsageError
from streamval.events import ChunkEvent, RetryEvent, StartedEvent, TokenEvent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from streamval.backends.base import Delta, GenerationRequest


class ReplayBackend(Backend):
    """Says what a recording says, attempt by attempt: to try other requirements on the same words.

    Args:
        path: What the `JSONL` sink has written. Recorded with `emit_tokens=True`, the deltas
            come as the model gave them; without, as the delivered chunks. Of several runs in
            one file, the first.
        speed: 1.0 for the recorded pace, 2.0 for twice as fast, `None` for at once.

    Raises:
        UsageError: If the file cannot be read, is no recording, or the speed is not above 0.

    Example:
        >>> ReplayBackend("no such file.jsonl")
        Traceback (most recent call last):
        streamval.errors.UsageError: cannot read the recording no such file.jsonl: No such file or directory
    """

    def __init__(self, path: str | Path, *, speed: float | None = 1.0) -> None:
        if speed is not None and speed <= 0:
            message = f"speed must be above 0, or None for at once, not {speed}"
            raise UsageError(message)
        self._speed = speed
        self._pieces: dict[int, list[tuple[float, str]]] = defaultdict(list)
        chunks: dict[int, list[tuple[float, str]]] = defaultdict(list)
        began: dict[int, float] = {}
        run_id = None
        for event in read_events(path):
            run_id = run_id or event.run_id
            if event.run_id != run_id:
                continue
            if isinstance(event, (StartedEvent, RetryEvent)):
                began[event.attempt] = event.timestamp
                if isinstance(event, StartedEvent):
                    self.model = event.model
                elif event.mode == "continue":
                    self.supports_prefix = True
            at = event.timestamp - began.get(event.attempt, event.timestamp)
            if isinstance(event, TokenEvent):
                self._pieces[event.attempt].append((at, event.text))
            elif isinstance(event, ChunkEvent):
                chunks[event.attempt].append((at, event.separator + event.text))
        self._pieces = self._pieces or chunks
        if not self._pieces:
            message = f"{path} is no recording of a run: it has neither tokens nor chunks"
            raise UsageError(message)

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Delta]:
        """What was said in this attempt."""
        if request.attempt not in self._pieces:
            message = (
                f"the recording has no attempt {request.attempt}; it has {len(self._pieces)}, so "
                "allow fewer, or record the run again"
            )
            raise BackendError(message)
        loop = asyncio.get_running_loop()
        began = loop.time()
        for at, text in self._pieces[request.attempt]:
            if self._speed is not None:
                wait = began + at / self._speed - loop.time()
                if wait > 0:
                    await asyncio.sleep(wait)
            yield text
