"""`rewrite`: replaces the text of chunks on their way to the consumer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from reactivex import Observable
from reactivex import operators as ops

from streamval.types.chunks import Chunk


def rewrite(fn: Callable[[str], str]) -> Callable[[Observable[Chunk]], Observable[Chunk]]:
    """Replace the text of each chunk, for example to redact or normalise it.

    Index, offsets and separator stay those of the raw text. An exception of `fn` becomes an error.

    Args:
        fn: Takes a chunk's text, and returns the text for the consumer.

    Returns:
        An operator.

    Example:
        >>> import reactivex
        >>> from streamval.types.chunks import Chunk
        >>> chunks = reactivex.of(Chunk("Call 555 0199.", 0, 0, 14))
        >>> _ = chunks.pipe(rewrite(lambda text: text.replace("555 0199", "(a number)"))).subscribe(
        ...     lambda chunk: print(chunk.text)
        ... )
        Call (a number).
    """

    def rewritten(chunk: Chunk) -> Chunk:
        return replace(chunk, text=fn(chunk.text))

    return ops.map(rewritten)
