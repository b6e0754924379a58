"""`chunk`: deltas of text in, chunks out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reactivex import Observable

from streamval.chunkers.base import shifted
from streamval.chunkers.chunking import check_chunking, start_chunker

if TYPE_CHECKING:
    from collections.abc import Callable

    from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase

    from streamval.chunkers.chunking import Chunking
    from streamval.types.chunks import Chunk


def chunk(
    chunking: Chunking = "sentence", *, index: int = 0, start: int = 0, attempt: int = 1
) -> Callable[[Observable[str]], Observable[Chunk]]:
    """Cut a stream of text into chunks.

    Each chunk comes out with the delta that completes it; what is left comes when the source
    completes. An error of the source drops the fragment.

    Args:
        chunking: An alias (`"sentence"`, `"word"`, `"paragraph"`, `"line"`, `"markdown"`, `"json"`), a
            `ChunkingStrategy`, a chunker or something that makes one, or `None` for a chunk a
            delta.
        index: Index of the first chunk, where the text goes on from earlier chunks.
        start: Offset of the first character, likewise.
        attempt: The attempt that the chunks are of, from 1.

    Returns:
        An operator; each subscription has a chunker of its own.

    Raises:
        UsageError: If `chunking` is nothing that cuts text.

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

    def operator(source: Observable[str]) -> Observable[Chunk]:
        def subscribe(
            observer: ObserverBase[Chunk], scheduler: SchedulerBase | None = None
        ) -> DisposableBase:
            chunker = start_chunker(chunking)
            feed = chunker.feed

            def emit(chunks: list[Chunk]) -> None:
                for found in chunks:
                    observer.on_next(shifted(found, start, index, attempt) if moved else found)

            def on_next(delta: str) -> None:
                if chunks := feed(delta):
                    emit(chunks)

            def on_completed() -> None:
                emit(chunker.flush())
                observer.on_completed()

            return source.subscribe(on_next, observer.on_error, on_completed, scheduler=scheduler)

        return Observable(subscribe)

    return operator


def chunk_by_sentence(
    *, lang: str | None = None, max_chars: int | None = None
) -> Callable[[Observable[str]], Observable[Chunk]]:
    """`chunk` with a `SentenceChunker`."""
    from streamval.chunkers.sentence import SentenceChunker  # only where used

    return chunk(lambda: SentenceChunker(lang=lang, max_chars=max_chars))


def chunk_by_word(
    *, max_chars: int | None = None
) -> Callable[[Observable[str]], Observable[Chunk]]:
    """`chunk` with a `WordChunker`."""
    from streamval.chunkers.word import WordChunker  # only where used

    return chunk(lambda: WordChunker(max_chars=max_chars))


def chunk_by_paragraph(
    *, max_chars: int | None = None
) -> Callable[[Observable[str]], Observable[Chunk]]:
    """`chunk` with a `ParagraphChunker`."""
    from streamval.chunkers.paragraph import ParagraphChunker  # only where used

    return chunk(lambda: ParagraphChunker(max_chars=max_chars))


def chunk_by_line(
    *, max_chars: int | None = None
) -> Callable[[Observable[str]], Observable[Chunk]]:
    """`chunk` with a `LineChunker`."""
    from streamval.chunkers.line import LineChunker  # only where used

    return chunk(lambda: LineChunker(max_chars=max_chars))
