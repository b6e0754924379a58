"""`ScriptedBackend`: a fixed output on a schedule, for tests and lessons."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import TypeAlias

from streamval.backends.base import Backend, GenerationRequest
from streamval.backends.tags import check_tags
from streamval.errors import BackendError, UsageError
from streamval.types.deltas import Delta, ToolCallDelta

Response: TypeAlias = "str | Delta | tuple[str | Delta, ...]"


class ScriptedBackend(Backend):
    """Yields a fixed output.

    Args:
        response: A text; a `Delta` with reasoning, text, or a call of a tool; a tuple of both, in order; or a list of
            these, one an attempt. After a prefix, a response contains only the continuation.
        token_size: Characters a delta.
        delay: Seconds before each delta.
        supports_prefix: Whether a `Repair` may let it continue.
        reasoning_tags: The tags between which a text has its reasoning.

    Raises:
        UsageError: If there is no response, or the token size is below 1.

    Example:
        >>> import asyncio
        >>> async def main():
        ...     backend = ScriptedBackend("Hello there.", token_size=5)
        ...     return [delta async for delta in backend.stream(backend.request("Hi"))]
        >>> asyncio.run(main())
        ['Hello', ' ther', 'e.']
        >>> thinking = ScriptedBackend((Delta(reasoning="Let me see."), "It rains."))
        >>> from streamval import Pipeline
        >>> result = Pipeline(thinking).run_sync("How is the weather?")
        >>> result.reasoning, result.text
        ('Let me see.', 'It rains.')
    """

    model = "scripted"

    def __init__(
        self,
        response: Response | list[Response],
        token_size: int = 4,
        delay: float = 0.0,
        *,
        supports_prefix: bool = False,
        reasoning_tags: tuple[str, str] | None = None,
    ) -> None:
        if token_size < 1 or delay < 0:
            raise UsageError(
                f"token_size must be at least 1 and delay at least 0, not {token_size}, {delay}"
            )
        self._every_time = not isinstance(response, list)
        given = response if isinstance(response, list) else [response]
        self._responses = [one if isinstance(one, tuple) else (one,) for one in given]
        if not given or not all(
            isinstance(p, (str, Delta)) for one in self._responses for p in one
        ):
            raise UsageError(
                "ScriptedBackend needs a string, a Delta or a tuple of them; or a list of these, one per attempt"
            )
        self._token_size = token_size
        self._delay = delay
        self.supports_prefix = supports_prefix
        self.reasoning_tags = check_tags(reasoning_tags)

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Delta]:
        """Yield the response for this attempt, in deltas."""
        if request.attempt > len(self._responses) and not self._every_time:
            raise BackendError(
                f"attempt {request.attempt}, but the script has {len(self._responses)} responses; "
                "add a response, or allow fewer attempts"
            )
        for part in self._responses[min(request.attempt, len(self._responses)) - 1]:
            for piece in self._pieces(part):
                if self._delay:
                    await asyncio.sleep(self._delay)
                yield piece

    def _pieces(self, part: str | Delta) -> Iterator[str | Delta]:
        """Cut a part of the script into deltas."""
        if isinstance(part, str):
            yield from self._cut(part)
            return
        for said in self._cut(part.reasoning):
            yield Delta(reasoning=said)
        yield from self._cut(part.text)
        if (call := part.tool_call) is not None:
            yield Delta(tool_call=replace(call, arguments=""))
            for said in self._cut(call.arguments):
                yield Delta(tool_call=ToolCallDelta(call.index, arguments=said))
        rest = replace(part, text="", reasoning="", tool_call=None)
        if rest != Delta():
            yield rest

    def _cut(self, text: str) -> Iterator[str]:
        for start in range(0, len(text), self._token_size):
            yield text[start : start + self._token_size]
