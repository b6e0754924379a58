"""`IterableBackend`: any function from a prompt to an iterable of strings."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, TypeAlias

from aiostream import Stream, streamcontext
from reactivex import Observable

from streamval import bridge
from streamval.backends.base import Backend, GenerationRequest
from streamval.backends.provider import broken_off, close
from streamval.backends.tags import check_tags
from streamval.errors import BackendError, UsageError
from streamval.types.deltas import Delta
from streamval.wire.streams import StreamReader

Pieces: TypeAlias = "Iterable[Any] | AsyncIterable[Any]"


class IterableBackend(Backend):
    """Yields the pieces that a function returns: for a client that you already have.

    Args:
        fn: Takes the prompt (the last message's text), and returns an iterable, an async iterable, a `Stream`
            of aiostream or an observable of strings or `Delta`s; may be async itself. If its first parameter is called `request`, it
            gets the whole `GenerationRequest`. The streams of the packages `openai` (chat, text, Responses),
            `anthropic` and LiteLLM are accepted as they come, with reasoning, calls of tools, usage, finish reason
            and refusal, and are closed. A sync
            generator runs on a thread, as waiting in it would block the event
            loop: write such a generator for a sync client (``yield from client.…``).
        model: A name for events; by default the function's.
        reasoning_tags: The tags between which the model writes its reasoning in the text.

    Raises:
        UsageError: If `fn` is not callable.

    Example:
        >>> import asyncio
        >>> async def main():
        ...     backend = IterableBackend(lambda prompt: prompt.split())
        ...     return [delta async for delta in backend.stream(backend.request("one two"))]
        >>> asyncio.run(main())
        ['one', 'two']
    """

    def __init__(
        self,
        fn: Callable[[Any], Pieces | Awaitable[Pieces]],
        model: str | None = None,
        *,
        reasoning_tags: tuple[str, str] | None = None,
    ) -> None:
        if not callable(fn):
            raise UsageError(
                f"IterableBackend needs a function of the prompt, not {type(fn).__name__}"
            )
        self._fn = fn
        self.reasoning_tags = check_tags(reasoning_tags)
        self._takes_request = _first_parameter(fn) == "request"
        self.model = model or str(getattr(fn, "__name__", type(fn).__name__))

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Delta]:
        """Yield the pieces that the function returns."""
        pieces: Any = self._fn(request if self._takes_request else request.messages[-1].content)
        if inspect.isawaitable(pieces) and not isinstance(pieces, (Observable, Stream)):
            pieces = await pieces
        pieces = bridge.as_async_iterable(pieces)
        if isinstance(pieces, (list, tuple)):
            for piece in pieces:
                yield piece
            return
        if isinstance(pieces, (str, bytes)) or not isinstance(pieces, (AsyncIterable, Iterable)):
            raise BackendError(
                f"{self.model} returned {type(pieces).__name__}, not an iterable of strings; "
                "yield the pieces, or return a list of them"
            )
        source = pieces if isinstance(pieces, AsyncIterable) else _on_thread(pieces)
        reader = StreamReader()
        try:
            async with streamcontext(source) as items:
                async for item in items:
                    for delta in reader.read(item):
                        yield delta
            if reader.reader is not None and not reader.reader.ended:
                raise broken_off(self.model, getattr(pieces, "response", None))
        finally:
            await close([pieces if isinstance(pieces, AsyncIterable) else None])


def _first_parameter(fn: Callable[..., Any]) -> str | None:
    try:
        return next(iter(inspect.signature(fn).parameters), None)
    except ValueError:  # a builtin
        return None


async def _on_thread(pieces: Iterable[str]) -> AsyncIterator[str]:
    iterator = iter(pieces)
    close: Callable[[], None] = getattr(iterator, "close", lambda: None)
    left = False

    def take() -> Any:
        item = next(iterator, _END)
        if left:
            with suppress(ValueError):
                close()
        return item

    try:
        while not isinstance(item := await asyncio.to_thread(take), _End):
            yield item
    finally:
        # A generator that is waiting on its thread cannot be closed from here (`ValueError`): the
        # thread does it, once the generator has yielded. So `left` is set first.
        left = True
        with suppress(ValueError):
            await asyncio.to_thread(close)


class _End:
    """The end of an iterable."""


_END: Any = _End()
