"""`chunk`: deltas in, chunks out."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from reactivex import Observable

from streamval.chunkers.base import shifted
from streamval.chunkers.channels import ChannelChunker
from streamval.chunkers.chunking import Chunking, check_chunking
from streamval.operators.stateful import passing_on
from streamval.types.chunks import Chunk
from streamval.types.deltas import Delta


def chunk(
    chunking: Chunking = "sentence",
    *,
    index: int = 0,
    start: int = 0,
    reasoning: tuple[int, int] = (0, 0),
    attempt: int = 1,
    tools: Collection[str] = (),
    make: Callable[[], ChannelChunker] | None = None,
) -> Callable[[Observable[Any]], Observable[Chunk]]:
    """Cut a stream of strings, or of `Delta`s with all channels, into chunks.

    Each chunk comes out with the delta that completes it; the rest comes when the source
    completes. Where the model goes on on another channel, the rest of the last one is a chunk. An error of the
    source drops the fragment.

    Args:
        chunking: An alias (`"sentence"`, `"word"`, `"paragraph"`, `"line"`, `"markdown"`, `"json"`), a
            `ChunkingStrategy`, a chunker, a function that makes a chunker, or `None` for a chunk a
            delta.
        index: Index of the first chunk, where the text continues earlier chunks.
        start: Offset of the first character, where the text continues earlier chunks.
        reasoning: Index and offset of the first chunk of reasoning, where it continues earlier chunks.
        attempt: The number of the attempt, from 1.
        tools: The names of the tools that may be called, so that a wrong name is known at once.
        make: Makes the chunker of all channels, in place of one for `chunking` and `tools`.

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
    moved = (index, start, reasoning, attempt) != (0, 0, (0, 0), 1)
    by = {"text": (start, index), "reasoning": reasoning[::-1], "tool": (0, 0)}

    def start_cutting(emit: Callable[[Chunk], None]) -> Any:
        chunker = ChannelChunker.of(chunking, tools) if make is None else make()
        feed_text, feed = chunker.text.feed, chunker.feed

        def emit_all(chunks: list[Chunk]) -> None:
            for found in chunks:
                emit(shifted(found, *by[found.channel], attempt) if moved else found)

        feed_string: Callable[[Any], list[Chunk]] = feed_text  # most streams are strings alone

        def on_next(delta: Any) -> None:
            nonlocal feed_string
            if delta.__class__ is Delta:
                chunks = feed(delta)
                feed_string = feed_text if chunker.is_plain else feed
            else:
                chunks = feed_string(delta)
            if chunks:
                emit_all(chunks)

        return on_next, lambda: emit_all(chunker.flush())

    return passing_on(start_cutting)


def chunk_by_sentence(
    *, lang: str | None = None, max_chars: int | None = None
) -> Callable[[Observable[Any]], Observable[Chunk]]:
    """Cut text with a `SentenceChunker`; see `chunk`."""
    from streamval.chunkers.sentence import SentenceChunker  # only where used

    return chunk(lambda: SentenceChunker(lang=lang, max_chars=max_chars))


def chunk_by_word(
    *, max_chars: int | None = None
) -> Callable[[Observable[Any]], Observable[Chunk]]:
    """Cut text with a `WordChunker`; see `chunk`."""
    from streamval.chunkers.word import WordChunker  # only where used

    return chunk(lambda: WordChunker(max_chars=max_chars))


def chunk_by_paragraph(
    *, max_chars: int | None = None
) -> Callable[[Observable[Any]], Observable[Chunk]]:
    """Cut text with a `ParagraphChunker`; see `chunk`."""
    from streamval.chunkers.paragraph import ParagraphChunker  # only where used

    return chunk(lambda: ParagraphChunker(max_chars=max_chars))


def chunk_by_line(
    *, max_chars: int | None = None
) -> Callable[[Observable[Any]], Observable[Chunk]]:
    """Cut text with a `LineChunker`; see `chunk`."""
    from streamval.chunkers.line import LineChunker  # only where used

    return chunk(lambda: LineChunker(max_chars=max_chars))
