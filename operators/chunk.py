"""`chunk`: deltas of text in, chunks out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reactivex import Observable

from streamval.chunkers.base import shifted
from streamval.chunkers.chunking import Chunking, check_chunking, start_chunker
from streamval.operators.stateful import stateful
from streamval.types.chunks import Chunk


def chunk(
    chunking: Chunking = "sentence", *, index: int = 0, start: int = 0, attempt: int = 1
) -> Callable[[Observable[str]], Observable[Chunk]]:
    """Cut a stream of text into chunks.

    Each chunk comes out with the delta that completes it; the rest comes when the source
    completes. An error of the source drops the fragment.

    Args:
        chunking: An alias (`"sentence"`, `"word"`, `"paragraph"`, `"line"`, `"markdown"`, `"json"`), a
            `ChunkingStrategy`, a chunker, a function that makes a chunker, or `None` for a chunk a
            delta.
        index: Index of the first chunk, where the text continues earlier chunks.
        start: Offset of the first character, where the text continues earlier chunks.
        attempt: The number of the attempt, from 1.

    Returns:
        An operator; each subscription has a chunker of its own.

    Raises:
        UsageError: If `chunking` is not a valid value.

    Example:
        >>> import reactivex
        >>> reactivex.of("It rains. I", "t pours.").pipe(chunk()).subscribe(
        ...     lambda chunk: print(chunk.index, chunk.text)
        ... )  # doctest: +ELLIPSIS
        0 It rains.
        1 It pours.
        <...>
    """
    check_chunking(chunking)
    moved = (index, start, attempt) != (0, 0, 1)

    def start_cutting(emit: Callable[[Chunk], None]) -> Any:
        chunker = start_chunker(chunking)
        feed = chunker.feed

        def emit_all(chunks: list[Chunk]) -> None:
            for found in chunks:
                emit(shifted(found, start, index, attempt) if moved else found)

        def on_next(delta: str) -> None:
            if chunks := feed(delta):
                emit_all(chunks)

        return on_next, lambda: emit_all(chunker.flush())

    return stateful(start_cutting)


def chunk_by_sentence(
    *, lang: str | None = None, max_chars: int | None = None
) -> Callable[[Observable[str]], Observable[Chunk]]:
    """Cut text with a `SentenceChunker`; see `chunk`."""
    from streamval.chunkers.sentence import SentenceChunker  # only where used

    return chunk(lambda: SentenceChunker(lang=lang, max_chars=max_chars))


def chunk_by_word(
    *, max_chars: int | None = None
) -> Callable[[Observable[str]], Observable[Chunk]]:
    """Cut text with a `WordChunker`; see `chunk`."""
    from streamval.chunkers.word import WordChunker  # only where used

    return chunk(lambda: WordChunker(max_chars=max_chars))


def chunk_by_paragraph(
    *, max_chars: int | None = None
) -> Callable[[Observable[str]], Observable[Chunk]]:
    """Cut text with a `ParagraphChunker`; see `chunk`."""
    from streamval.chunkers.paragraph import ParagraphChunker  # only where used

    return chunk(lambda: ParagraphChunker(max_chars=max_chars))


def chunk_by_line(
    *, max_chars: int | None = None
) -> Callable[[Observable[str]], Observable[Chunk]]:
    """Cut text with a `LineChunker`; see `chunk`."""
    from streamval.chunkers.line import LineChunker  # only where used

    return chunk(lambda: LineChunker(max_chars=max_chars))
