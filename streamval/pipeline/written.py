"""The raw text of one attempt on a channel, and the offset up to which it has been released."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from streamval.chunkers.base import Chunker
from streamval.pipeline.delta_reader import check_kind
from streamval.types.chunks import Chunk
from streamval.types.transcript import Transcript


class Written:
    """The raw text of an attempt on a channel, from the prefix that it continues.

    Args:
        prefix: The text or sound that the attempt continues; empty for none.
        index: Index of the first chunk.
        counts: Whether to count the tokens that were released, as a repair that continues needs it.

    Attributes:
        released_to: Offset up to which chunks have been released.
        next_index: Index of the chunk after those.
        released_tokens: How many tokens those chunks are. Only kept with `counts`.
        kind: The type of the text: `str`, or `bytes` for sound.

    Example:
        >>> written = Written("", 0, counts=True)
        >>> for token in ("One. ", "Two"):
        ...     written.add(token)
        >>> written.release(Chunk("One.", 0, 0, 5))
        >>> written.text, written.released_to, written.released_tokens
        ('One. Two', 5, 1)
    """

    def __init__(self, prefix: str | bytes, index: int, *, counts: bool) -> None:
        self.released_to = len(prefix)
        self.next_index = index
        self.released_tokens = 0
        self.kind = type(prefix)
        self._raw: Transcript[Any] = Transcript(prefix)
        self._length = len(prefix)
        self._token_ends: deque[int] | None = deque() if counts else None

    @property
    def add(self) -> Callable[[Any], None]:
        """Adds the text of a delta, as the user's delta operators have left it."""
        # Runs for every token, so it counts only if needed.
        return self._raw.write if self._token_ends is None else self._add_and_count

    def _add_and_count(self, text: Any) -> None:
        self._raw.write(text)
        self._length += len(text)
        if self._token_ends is not None:
            self._token_ends.append(self._length)

    def release(self, chunk: Chunk) -> None:
        """Note that a chunk has been released: a repair continues behind it."""
        self.released_to, self.next_index = chunk.end, chunk.index + 1
        ends = self._token_ends
        while ends and ends[0] <= chunk.end:
            ends.popleft()
            self.released_tokens += 1

    def compact(self) -> None:
        """Join the pieces, if there are many: called now and then."""
        self._raw.compact()

    @property
    def text(self) -> Any:
        """The whole output: text, or bytes of sound."""
        return self._raw.getvalue()


class RecordedChunker(NamedTuple):
    """A chunker that records its text. An operator before it would cost a microsecond a token more.

    Attributes:
        feed: As of any chunker.
        flush: As of any chunker.
    """

    feed: Callable[[Any], list[Chunk]]
    flush: Callable[[], list[Chunk]]


def recorded(chunker: Chunker, written: Written, rest: Callable[[], str]) -> RecordedChunker:
    """Return a chunker that adds all its text to `written` before it cuts.

    Args:
        chunker: The chunker that cuts.
        written: The record of the text.
        rest: Returns the last text at the end of the stream: half of a surrogate pair that waited
            for its other half, replaced. User operators do not see it.

    Raises:
        DeltaTypeError: On feeding, if a text is of another kind than the prefix.
    """
    kind, add, cut = written.kind, written.add, chunker.feed

    def feed(text: Any) -> list[Chunk]:
        add(text if type(text) is kind else check_kind(text, kind))
        return cut(text)

    def flush() -> list[Chunk]:
        last = rest()
        return (feed(last) if last else []) + chunker.flush()

    return RecordedChunker(feed, flush)
