"""`FaultyBackend`: a backend that speaks, waits, stalls, breaks, cuts and repeats on command."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from streamval.backends.base import Backend, GenerationRequest
from streamval.errors import StreamBrokenError
from streamval.types.deltas import Delta

STALL = object()
"""In a script: wait until the stream is closed."""

CUT = object()
"""In a script: break off without a finish reason."""


class FaultyBackend(Backend):
    """Says what its script says, and remembers what became of each stream.

    Args:
        *script: In order: a string or `Delta` is said, a number of seconds is slept, an exception is raised, a
            function is called and awaited; `STALL` waits until the stream is closed, `CUT` ends it without a
            finish reason. Lists in place of these are one script an attempt.
        supports_prefix: Whether it claims to continue a prefix: it then says the next script.
        closing: Awaited while a stream is closed: a connection that takes its time.

    Attributes:
        requests: The requests, in order.
        opened: How many streams have been opened.
        closed: How many have been closed.
        said: How many deltas were said in all.

    Example:
        >>> from streamval import Pipeline
        >>> from streamval.testing import CUT, FaultyBackend
        >>> backend = FaultyBackend("One. ", "Two. ", CUT)
        >>> Pipeline(backend).run_sync("Count.")
        Traceback (most recent call last):
            ...
        streamval.errors.StreamBrokenError: the stream broke off, as its script says
        >>> backend.opened, backend.closed, backend.said
        (1, 1, 2)
    """

    model = "faulty"

    def __init__(
        self,
        *script: Any,
        supports_prefix: bool = False,
        closing: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self.script = script
        self.supports_prefix = supports_prefix
        self.requests: list[GenerationRequest] = []
        self.opened = self.closed = self.said = 0
        self._closing = closing

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Delta]:
        """Follow the script of this attempt."""
        self.requests.append(request)
        self.opened += 1
        try:
            for step in self.script_of(request):
                if isinstance(step, BaseException):
                    raise step
                if step is CUT:
                    raise StreamBrokenError("the stream broke off, as its script says")
                if step is STALL:
                    await asyncio.Event().wait()
                elif isinstance(step, (int, float)):
                    await asyncio.sleep(step)
                elif callable(step):
                    await step()
                else:
                    self.said += 1
                    yield step
        finally:
            if self._closing is not None:
                await self._closing()
            self.closed += 1

    def script_of(self, request: GenerationRequest) -> Sequence[Any]:
        """Return the script for a request; override it to answer by what is asked."""
        if self.script and isinstance(self.script[0], list):
            script: Sequence[Any] = self.script[request.attempt - 1]
            return script
        return self.script
