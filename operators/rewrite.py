"""`rewrite`: change what chunks say on their way to the consumer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from reactivex import operators as ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from reactivex import Observable

    from streamval.types.chunks import Chunk


def rewrite(fn: Callable[[str], str]) -> Callable[[Observable[Chunk]], Observable[Chunk]]:
    """Replace the text of each chunk: redaction, normalising.

    Index, offsets and separator stay those of the raw text. What `fn` raises becomes an error.

    Args:
        fn: From a chunk's text to what the consumer gets instead.

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
