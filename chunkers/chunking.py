"""What `chunking=` may be given, and how a chunker is started from it."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from streamval.chunkers.base import Chunker, ChunkingStrategy
from streamval.chunkers.delta import DeltaChunker
from streamval.chunkers.strategy import StrategyChunker
from streamval.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

Chunking: TypeAlias = "str | ChunkingStrategy | Chunker | Callable[[], Chunker] | None"
"""What `chunking=` takes: an alias, a strategy, a chunker (as a pattern to start from), something
that makes one, or `None` for a chunk a delta."""

_ALIASES = {
    "sentence": ("sentence", "SentenceChunker"),
    "word": ("word", "WordChunker"),
    "paragraph": ("paragraph", "ParagraphChunker"),
    "line": ("line", "LineChunker"),
    "markdown": ("markdown", "MarkdownChunker"),
    "json": ("json", "JSONChunker"),
}


def start_chunker(chunking: Chunking) -> Chunker:
    """A fresh chunker from whatever `chunking=` was given.

    Raises:
        UsageError: If it is nothing that cuts text; the message names what can be given.

    Example:
        >>> [chunk.text for chunk in start_chunker("word").feed("Hello there ")]
        ['Hello', 'there']
    """
    return _maker(chunking)()


def check_chunking(chunking: Chunking) -> Chunking:
    """`chunking` itself, if a chunker can be started from it; see `start_chunker`."""
    _maker(chunking)
    return chunking


def describe_chunking(chunking: Chunking) -> str:
    """A name for events: the alias, or the class.

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
    """Whether it cuts sound, which is bytes, and not text."""
    if chunking is None or isinstance(chunking, (str, ChunkingStrategy)):
        return False
    made = chunking if hasattr(chunking, "audio") else start_chunker(chunking)
    return bool(getattr(made, "audio", False))


def finer(inner: Chunking, outer: Chunking) -> bool:
    """Whether chunks of `inner` never reach across those of `outer`."""
    inner_grain, outer_grain = _grain(inner), _grain(outer)
    return inner_grain is not None and outer_grain is not None and inner_grain < outer_grain


@cache
def _chunker_class(alias: str) -> type[Any]:
    module, name = _ALIASES[alias]
    chunker: type[Any] = getattr(import_module(f"streamval.chunkers.{module}"), name)
    return chunker


def _maker(chunking: Chunking) -> Callable[[], Chunker]:
    if chunking is None:
        return DeltaChunker
    if isinstance(chunking, str):
        if chunking not in _ALIASES:
            known = ", ".join(repr(alias) for alias in _ALIASES)
            message = f"no chunking is called {chunking!r}; choose {known}, or give a chunker"
            raise UsageError(message)
        return _chunker_class(chunking)
    if isinstance(chunking, ChunkingStrategy):
        return lambda: StrategyChunker(chunking)
    if not isinstance(chunking, type) and isinstance(chunking, Chunker):
        return lambda: deepcopy(chunking)
    if callable(chunking):
        return _checked_factory(chunking)
    message = (
        f"chunking cannot be {type(chunking).__name__}; give an alias such as 'sentence', a "
        "ChunkingStrategy, a chunker or a function that makes one, or None for a chunk a delta"
    )
    raise UsageError(message)


def _checked_factory(factory: Callable[[], Any]) -> Callable[[], Chunker]:
    def make() -> Chunker:
        made = factory()
        # `isinstance(made, Chunker)`, at a tenth of its price: this runs for every attempt.
        if hasattr(made, "feed") and hasattr(made, "flush"):
            chunker: Chunker = made
            return chunker
        if isinstance(made, ChunkingStrategy):
            return start_chunker(made)
        message = f"chunking={factory!r} made {type(made).__name__}, which has no feed and flush"
        raise UsageError(message)

    return make


def _grain(chunking: Chunking) -> int | None:
    if isinstance(chunking, str) and chunking in _ALIASES:
        return _grain_of(_chunker_class(chunking))
    return _grain_of(chunking)


def _grain_of(chunking: object) -> int | None:
    grain = getattr(chunking, "grain", None)
    # One with a limit cuts wherever it is reached.
    limited = isinstance(getattr(chunking, "max_chars", None), int)
    return grain if isinstance(grain, int) and not limited else None
