"""`StrategyChunker`: any `ChunkingStrategy`, driven a delta at a time."""

from __future__ import annotations

from streamval.chunkers.base import ChunkingStrategy, not_text
from streamval.errors import ChunkerError
from streamval.types.chunks import Chunk

EAGER_CHARS = 1024
"""Up to this many pending characters the strategy is called for every delta; above, only when the
pending text has grown by an eighth, so that text without a boundary costs linear time."""


class StrategyChunker:
    """Feeds a strategy the text since its last chunk.

    Args:
        strategy: Splits text; must return chunks verbatim and in order.

    Raises:
        ChunkerError: On feeding, if the strategy returns chunks that are not in the text.

    Example:
        >>> from streamval.chunkers.base import ChunkingStrategy
        >>> class Bars(ChunkingStrategy):
        ...     def split(self, accumulated_text):
        ...         return [part for part in accumulated_text.split("|")[:-1] if part]
        >>> [chunk.text for chunk in StrategyChunker(Bars()).feed("a|b|c")]
        ['a', 'b']
    """

    def __init__(self, strategy: ChunkingStrategy) -> None:
        self._strategy = strategy
        self._pieces: list[str] = []
        self._length = 0
        self._ask_at = 0
        self._index = 0
        self._start = 0

    def feed(self, delta: str) -> list[Chunk]:
        """Take the next piece of text; return the chunks it completes."""
        if not isinstance(delta, str):
            raise not_text(delta)
        self._pieces.append(delta)
        self._length += len(delta)
        if self._length < self._ask_at:
            return []
        pending = "".join(self._pieces)
        chunks = self._placed(self._strategy.split(pending), pending)
        if self._length > EAGER_CHARS:
            self._ask_at = self._length + self._length // 8
        return chunks

    def flush(self) -> list[Chunk]:
        """Return the chunks that the strategy finds in the rest."""
        pending = "".join(self._pieces)
        chunks = self._placed(self._strategy.split(pending), pending)
        rest = "".join(self._pieces)
        if rest:
            chunks += self._placed(self._strategy.flush(rest), rest)
        return chunks

    def _placed(self, texts: list[str], pending: str) -> list[Chunk]:
        chunks = []
        done = 0
        for text in texts:
            at = pending.find(text, done)
            if at < 0 or not text:
                name = type(self._strategy).__name__
                raise ChunkerError(
                    f"{name} returned the chunk {text[:40]!r}, which does not follow the "
                    "previous chunk in the text; chunks must be non-empty, verbatim and in order"
                )
            end = at + len(text)
            separator = pending[done:at]
            chunks.append(Chunk(text, self._index, self._start + at, self._start + end, separator))
            self._index += 1
            done = end
        if done:
            self._start += done
            self._pieces = [pending[done:]]
            self._length = len(pending) - done
            self._ask_at = 0
        return chunks

    def __copy__(self) -> StrategyChunker:
        """Return an independent copy with the same state."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._pieces = list(self._pieces)
        return twin
