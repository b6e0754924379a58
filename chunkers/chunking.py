"""The values of `chunking=`, and the chunker for each."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any, TypeAlias

from streamval.chunkers.base import Chunker, ChunkingStrategy
from streamval.chunkers.delta import DeltaChunker
from streamval.chunkers.strategy import StrategyChunker
from streamval.errors import UsageError
from streamval.types.channels import Channel

Chunking: TypeAlias = "str | ChunkingStrategy | Chunker | Callable[[], Chunker] | None"
"""A value of `chunking=`: an alias, a strategy, a chunker (which is copied), a function that makes
a chunker, or `None` for a chunk a delta."""

_ALIASES = {
    "sentence": "SentenceChunker",
    "word": "WordChunker",
    "paragraph": "ParagraphChunker",
    "line": "LineChunker",
    "markdown": "MarkdownChunker",
    "json": "JSONChunker",
}


LONGEST_THOUGHT = 400
"""Characters of the longest chunk of reasoning, about a hundred tokens. The text has no such limit by default, as its
chunks are what a consumer has asked for."""


def start_chunker(chunking: Chunking) -> Chunker:
    """Return a new chunker for a value of `chunking=`.

    Raises:
        UsageError: If `chunking` is not a valid value; the message lists the choices.

    Example:
        >>> [chunk.text for chunk in start_chunker("word").feed("Hello there ")]
        ['Hello', 'there']
    """
    return _maker(chunking)()


def check_chunking(chunking: Chunking) -> Chunking:
    """Return `chunking` unchanged, or raise the `UsageError` of `start_chunker`."""
    _maker(chunking)
    return chunking


def describe_chunking(chunking: Chunking) -> str:
    """Return a name for events: the alias, or the class.

    Example:
        >>> describe_chunking("sentence"), describe_chunking(None)
        ('sentence', 'delta')
    """
    if chunking is None:
        return "delta"
    if isinstance(chunking, str):
        return chunking
    alias = getattr(chunking, "alias", None)
    return str(alias or getattr(chunking, "__name__", type(chunking).__name__))


def takes_audio(chunking: Chunking) -> bool:
    """Return whether the chunker cuts sound (bytes) rather than text."""
    if chunking is None or isinstance(chunking, (str, ChunkingStrategy)):
        return False
    made = chunking if hasattr(chunking, "audio") else start_chunker(chunking)
    return bool(getattr(made, "audio", False))


def chunking_on(channel: Channel, chunking: Chunking) -> Chunking:
    """Return how a channel is cut, where the text is cut by `chunking`.

    Reasoning is cut into sentences, also before JSON or sound, unless the text is cut into something smaller. Calls of
    tools have a chunker of their own.

    Example:
        >>> chunking_on("reasoning", "word")
        'word'
        >>> [chunk.text for chunk in chunking_on("reasoning", "json")().feed("Hm. So it is. ")]
        ['Hm.', 'So it is.']
    """
    if channel == "text":
        return chunking
    return chunking if chunking in (None, "word", "line") else thoughts


def thoughts() -> Chunker:
    """Return the chunker of reasoning: sentences, cut at a space after `LONGEST_THOUGHT` characters.

    A model that goes round in circles may never end its sentence, and would not be judged before its end.
    """
    chunker: Chunker = _chunker_class("sentence")(max_chars=LONGEST_THOUGHT)
    return chunker


thoughts.grain = 2  # type: ignore[attr-defined]  # as that of sentences: it cuts further at spaces only


def finer(inner: Chunking, outer: Chunking) -> bool:
    """Return whether chunks of `inner` never reach across a boundary of `outer`."""
    inner_grain, outer_grain = _grain(inner), _grain(outer)
    return inner_grain is not None and outer_grain is not None and inner_grain < outer_grain


@cache
def _chunker_class(alias: str) -> type[Any]:
    import streamval.chunkers as built_in  # lazy: imports only the requested module

    chunker: type[Any] = getattr(built_in, _ALIASES[alias])
    return chunker


def _maker(chunking: Chunking) -> Callable[[], Chunker]:
    if chunking is None:
        return DeltaChunker
    if isinstance(chunking, str):
        if chunking not in _ALIASES:
            known = ", ".join(repr(alias) for alias in _ALIASES)
            raise UsageError(
                f"no chunking is called {chunking!r}; choose {known}, or give a chunker"
            )
        return _chunker_class(chunking)
    if isinstance(chunking, ChunkingStrategy):
        return lambda: StrategyChunker(chunking)
    if not isinstance(chunking, type) and isinstance(chunking, Chunker):
        return lambda: deepcopy(chunking)
    if callable(chunking):
        return _checked_factory(chunking)
    raise UsageError(
        f"chunking cannot be {type(chunking).__name__}; give an alias such as 'sentence', a "
        "ChunkingStrategy, a chunker or a function that makes one, or None for one chunk per delta"
    )


def _checked_factory(factory: Callable[[], Any]) -> Callable[[], Chunker]:
    def make() -> Chunker:
        try:
            made = factory()
        except TypeError as error:
            raise UsageError(
                f"chunking={getattr(factory, '__name__', factory)!s} could not be called without arguments "
                f"({error}): give a function that makes a chunker. To cut by a function of a delta, "
                "subclass TextChunker; by a pattern, use RegexChunker"
            ) from error
        # A tenth of the cost of `isinstance(made, Chunker)`; this runs for every attempt.
        if hasattr(made, "feed") and hasattr(made, "flush"):
            chunker: Chunker = made
            return chunker
        if isinstance(made, ChunkingStrategy):
            return start_chunker(made)
        raise UsageError(
            f"chunking={factory!r} made {type(made).__name__}, which has no feed and flush"
        )

    return make


def _grain(chunking: Chunking) -> int | None:
    if isinstance(chunking, str) and chunking in _ALIASES:
        return _grain_of(_chunker_class(chunking))
    return _grain_of(chunking)


def _grain_of(chunking: object) -> int | None:
    grain = getattr(chunking, "grain", None)
    # A chunker with `max_chars` may cut anywhere, so it has no grain.
    limited = isinstance(getattr(chunking, "max_chars", None), int)
    return grain if isinstance(grain, int) and not limited else None
