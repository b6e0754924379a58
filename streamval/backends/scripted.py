"""`ScriptedBackend`: a fixed text on a schedule, for tests and lessons."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from streamval.backends.base import Backend
from streamval.errors import BackendError, UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from streamval.backends.base import Delta, GenerationRequest


class ScriptedBackend(Backend):
    """Says a fixed text.

    Args:
        response: The text, or a list of texts, one an attempt. A text that continues a prefix is
            only what follows it.
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
            message = (
                f"token_size must be at least 1 and delay at least 0, not {token_size}, {delay}"
            )
            raise UsageError(message)
        self._responses = (response,) if isinstance(response, str) else tuple(response)
        self._every_time = isinstance(response, str)
        if not self._responses or not all(isinstance(text, str) for text in self._responses):
            message = "ScriptedBackend needs a string, or a list of strings, one an attempt"
            raise UsageError(message)
        self._token_size = token_size
        self._delay = delay
        self.supports_prefix = supports_prefix

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Delta]:
        """The response for this attempt, in deltas."""
        if request.attempt > len(self._responses) and not self._every_time:
            message = (
                f"attempt {request.attempt} was asked of a script for {len(self._responses)}; "
                "add a response, or allow fewer attempts"
            )
            raise BackendError(message)
        text = self._responses[min(request.attempt, len(self._responses)) - 1]
        for start in range(0, len(text), self._token_size):
            if self._delay:
                await asyncio.sleep(self._delay)
            yield text[start : start + self._token_size]
