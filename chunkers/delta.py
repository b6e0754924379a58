"""`DeltaChunker`: a chunk a delta."""

from __future__ import annotations

from streamval.chunkers.base import not_text
from streamval.types.chunks import Chunk


class DeltaChunker:
    """Returns each delta as a chunk, including its whitespace. Used for `chunking=None`."""

    def __init__(self) -> None:
        self._index = 0
        self._start = 0

    def feed(self, delta: str) -> list[Chunk]:
        """Return the delta as a chunk."""
        if not isinstance(delta, str):
            raise not_text(delta)
        if not delta:
            return []
        chunk = Chunk(delta, self._index, self._start, self._start + len(delta))
        self._index += 1
        self._start = chunk.end
        return [chunk]

    def flush(self) -> list[Chunk]:
        """Return an empty list: no text is pending."""
        return []
