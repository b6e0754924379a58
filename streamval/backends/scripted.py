"""`ScriptedBackend`: a fixed text on a schedule, for tests and lessons."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from streamval.backends.base import Backend, GenerationRequest
from streamval.errors import BackendError, UsageError
from streamval.types.deltas import Delta


class ScriptedBackend(Backend):
    """Yields a fixed text.

    Args:
        response: The text, or a list with a text for each attempt. After a prefix, a text contains
            only the continuation.
        token_size: Characters a delta.
        delay: Seconds before each delta.
        supports_prefix: Whether a `Repair` may let it continue.

    Raises:
        UsageError: If there is no response, or the token size is below 1.

    Example:
        >>> import asyncio
        >>> async def main():
        ...     backend = ScriptedBackend("Hello there.", token_size=5)
        ...     return [delta async for delta in backend.stream(backend.request("Hi"))]
        >>> asyncio.run(main())
        ['Hello', ' ther', 'e.']
    """

    model = "scripted"

    def __init__(
        self,
        response: str | Sequence[str],
        token_size: int = 4,
        delay: float = 0.0,
        *,
        supports_prefix: bool = False,
    ) -> None:
        if token_size < 1 or delay < 0:
            raise UsageError(
                f"token_size must be at least 1 and delay at least 0, not {token_size}, {delay}"
            )
        self._responses = (response,) if isinstance(response, str) else tuple(response)
        self._every_time = isinstance(response, str)
        if not self._responses or not all(isinstance(text, str) for text in self._responses):
            raise UsageError("ScriptedBackend needs a string, or a list of strings, one an attempt")
        self._token_size = token_size
        self._delay = delay
        self.supports_prefix = supports_prefix

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Delta]:
        """Yield the response for this attempt, in deltas."""
        if request.attempt > len(self._responses) and not self._every_time:
            raise BackendError(
                f"attempt {request.attempt}, but the script has {len(self._responses)} responses; "
                "add a response, or allow fewer attempts"
            )
        text = self._responses[min(request.attempt, len(self._responses)) - 1]
        for start in range(0, len(text), self._token_size):
            if self._delay:
                await asyncio.sleep(self._delay)
            yield text[start : start + self._token_size]
