"""`ModelOutputThunk`: a model's output, which may not be written yet."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

from streamval.errors import RunError
from streamval.types.results import Usage

CUT_OFF = ("length", "max_tokens")
"""The finish reasons of an answer that a limit of tokens has cut off: OpenAI's, Anthropic's."""


@dataclass(slots=True)
class GenerationMetadata:
    """Metadata of a generation.

    Attributes:
        model: The model's name.
        usage: Tokens, as the backend reports them; `None` where it does not.
        finish_reason: Why the model stopped, once it has.
        refusal: The words with which the model refused to answer.
        deltas: How many pieces have come.
        reasoning_deltas: How many of them were reasoning.
        calls: How many calls of tools have begun.
        opaque: Blocks of signed or encrypted reasoning, as the provider sent them.
        opaque_places: What each block came behind: 0 nothing, 1 text, 2 the first call (and text, if any), …
        cancelled: Whether the generation was cancelled before its end.
    """

    model: str = ""
    usage: Usage | None = None
    finish_reason: str | None = None
    refusal: str = ""
    deltas: int = 0
    reasoning_deltas: int = 0
    calls: int = 0
    opaque: tuple[Mapping[str, Any], ...] = ()
    opaque_places: tuple[int, ...] = ()
    cancelled: bool = False

    @property
    def cut_off(self) -> str | None:
        """The words for an answer that the limit of tokens has cut off; `None` for any other.

        Example:
            >>> GenerationMetadata(finish_reason="length", deltas=200).cut_off
            'cut off at 200 tokens'
        """
        if self.finish_reason not in CUT_OFF:
            return None
        return f"cut off at {self.deltas if self.usage is None else self.usage.completion_tokens} tokens"


class Generating(Protocol):
    """A generation that starts when its text is first asked for (see `streamval.backends`)."""

    @property
    def value(self) -> str | None:
        """The text, or `None` while it is not complete."""

    async def avalue(self) -> str:
        """Wait for the text."""

    def astream(self) -> AsyncGenerator[str]:
        """Return the pieces of text as they come."""

    async def cancel(self) -> None:
        """Stop, and wait until the backend is closed."""


class ModelOutputThunk:
    """A model's output: computed already, or generated when its text is first asked for.

    Nothing is generated before `avalue` or `astream` is first awaited. The stream has one consumer;
    a slow one slows the model down. Any number of tasks may await `avalue`, also while the stream
    is consumed. From then on a slow consumer no longer slows the model down. Leaving ``async with`` cancels
    what is left of the generation.

    Args:
        value: The text, where it is known already.
        generation: Metadata of its generation.

    Attributes:
        generation: Metadata of the generation.

    Example:
        >>> import asyncio
        >>> from streamval import ScriptedBackend
        >>> from streamval.types import Context
        >>> async def main():
        ...     thunk, _ = await ScriptedBackend("Hello.").generate_from_context("Hi", Context())
        ...     print(thunk.is_computed(), await thunk.avalue(), thunk.is_computed())
        >>> asyncio.run(main())
        False Hello. True
    """

    def __init__(
        self, value: str | None = None, generation: GenerationMetadata | None = None
    ) -> None:
        self.generation = generation or GenerationMetadata()
        self._value = value
        self._generating: Generating | None = None

    @classmethod
    def generating(
        cls, model: str, start: Callable[[GenerationMetadata], Generating]
    ) -> ModelOutputThunk:
        """Return a thunk that is not computed yet.

        Args:
            model: The model's name.
            start: Makes the generation, which keeps the metadata up to date.
        """
        thunk = cls()
        thunk.generation.model = model
        thunk._generating = start(thunk.generation)
        return thunk

    @property
    def value(self) -> str | None:
        """The text, or `None` while it is not complete."""
        return self._value if self._generating is None else self._generating.value

    @property
    def cancelled(self) -> bool:
        """Whether the generation was cancelled before its end."""
        return self.generation.cancelled

    def is_computed(self) -> bool:
        """Return whether the text is complete. After a cancellation it is the text so far."""
        return self.value is not None

    def __str__(self) -> str:
        value = self.value
        return value if isinstance(value, str) else ""

    def __repr__(self) -> str:
        return f"ModelOutputThunk({self.value!r})"

    async def avalue(self) -> str:
        """Return the text, generated now if it has not been.

        Raises:
            BaseException: Any exception of the backend. The text before it does not become the value.
            asyncio.CancelledError: If this task is cancelled. If no other task waits for the
                output, the backend is closed first.
        """
        if self._generating is not None:
            return await self._generating.avalue()
        if self._value is None:
            raise RunError("this output has neither a value nor a backend to generate it")
        return self._value

    def astream(self) -> AsyncGenerator[str]:
        """Return the pieces of text as they come. For one consumer; leaving early cancels the rest.

        Raises:
            RunError: If the stream has a consumer already, or the text is complete.
        """
        if self._generating is None:
            raise already_computed()
        return self._generating.astream()

    def __aiter__(self) -> AsyncIterator[str]:
        """Return the pieces of text as they come; none of an output that is complete."""
        return _nothing() if self.is_computed() else self.astream()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cancel_generation()

    async def cancel_generation(self) -> None:
        """Stop generating, and return when the backend is closed.

        Does nothing to an output that is complete, or was cancelled before. Otherwise unread text
        is dropped, the stream's consumer sees its end, and the telemetry span is ended. The value
        is the text so far.

        Raises:
            asyncio.CancelledError: If this task is cancelled meanwhile. The backend is closed and
                the span ended before it is raised.
        """
        if self._generating is not None:
            await self._generating.cancel()


async def _nothing() -> AsyncIterator[str]:
    return
    yield


def already_computed() -> RunError:
    """Return the error for streaming an output that is complete."""
    return RunError("the output is complete, so there is nothing to stream; read its value")
