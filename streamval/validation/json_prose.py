"""`JSONProse`: what a requirement that judges prose sees of chunks of JSON."""

from __future__ import annotations

import json
import re
from copy import copy, deepcopy
from dataclasses import replace

from streamval.chunkers.base import Chunker
from streamval.chunkers.chunking import Chunking, start_chunker
from streamval.chunkers.json import JSONChunk, JSONDelta
from streamval.structured.json_events import JSONEvent
from streamval.structured.reader import CERTAIN_AFTER
from streamval.types.chunks import Chunk


class JSONProse:
    """Takes chunks of JSON, and returns the text in them: each string as one chunk, decoded.

    Such a chunk is a `JSONChunk`: it has the value and its path, and its `start` and `end` are the
    place of the value in the raw text. Text around the JSON, such as a preamble, is cut as prose.

    Args:
        chunking: How a string is cut further; by default it is not cut. No chunk reaches across strings.
        keys: Whether keys are chunks too, for a requirement that judges whatever is delivered.
        scalars: Whether numbers, true, false and null are chunks too.

    Example:
        >>> from streamval.chunkers.json import JSONDeltaChunker
        >>> prose, chunker = JSONProse(), JSONDeltaChunker()
        >>> for delta in ['{"say": "so \\\\u0062', 'ad", "n": 1}']:
        ...     for chunk in chunker.feed(delta):
        ...         print([(piece.text, piece.start) for piece in prose.take(chunk)])
        []
        [('so bad', 8)]
    """

    def __init__(
        self, chunking: Chunking = None, *, keys: bool = False, scalars: bool = False
    ) -> None:
        self._chunking = chunking
        self._keys = keys
        self._scalars = scalars
        self._around = start_chunker("sentence" if chunking is None else chunking)
        self._around_from: int | None = None  # where `_around` began, in the raw text
        # Text from a bracket on that may begin the JSON.
        self._uncertain = ""
        self._end = 0
        self._depth = 0

    def take(self, chunk: Chunk) -> list[Chunk]:
        """Return the pieces of text that a chunk completes."""
        text = chunk.separator + chunk.text
        begin = chunk.end - len(text)
        reading = chunk.reading if isinstance(chunk, JSONDelta) else None
        pieces: list[Chunk] = []
        at = 0  # where text outside of the JSON goes on
        for event in () if reading is None else reading.events:
            if event.kind in ("start_object", "start_array"):
                if not self._depth:
                    before = self._uncertain + text[at:]
                    size = event.start - (begin + at - len(self._uncertain))
                    self._uncertain = ""
                    pieces += self._cut_around(before[:size], event.start - size)
                    pieces += self._end_around()
                self._depth += 1
            elif event.kind == "end":
                self._depth -= 1
                at = event.end - begin
            else:
                pieces += self._inside(event)
        if not self._depth:
            pieces += self._outside(text[at:], begin + at)
        return pieces

    def flush(self) -> list[Chunk]:
        """Return the rest of the text behind the JSON."""
        pieces = self._cut_around(self._uncertain, self._end - len(self._uncertain))
        self._uncertain = ""
        return pieces + self._end_around()

    def __copy__(self) -> JSONProse:
        twin: JSONProse = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        around = self._around
        twin._around = copy(around) if hasattr(type(around), "__copy__") else deepcopy(around)
        return twin

    def _inside(self, event: JSONEvent) -> list[Chunk]:
        """Return the pieces of a key or a scalar value."""
        value = event.value
        is_text = isinstance(value, str)
        if not (self._keys if event.kind == "key" else is_text or self._scalars):
            return []
        text = value if is_text else json.dumps(value)
        whole = JSONChunk(text, 0, event.start, event.end, path=event.path, value=value)
        if self._chunking is None:
            return [whole] if text.strip() else []
        return [replace(whole, text=piece.text) for piece in _all(self._chunking, text)]

    def _outside(self, text: str, begin: int) -> list[Chunk]:
        """Cut text outside of the JSON, but keep it from a bracket on."""
        self._end = begin + len(text)
        held = len(self._uncertain)
        text = self._uncertain + text
        bracket = _BRACKET.search(text)
        if bracket is not None and len(text) - bracket.start() > CERTAIN_AFTER:  # it began none
            bracket = _BRACKET.search(text, len(text) - CERTAIN_AFTER)
        size = len(text) if bracket is None else bracket.start()
        self._uncertain = text[size:]
        return self._cut_around(text[:size], begin - held)

    def _cut_around(self, text: str, begin: int) -> list[Chunk]:
        if not text:
            return []
        if self._around_from is None:
            self._around_from = begin
        return self._placed(self._around.feed(text))

    def _end_around(self) -> list[Chunk]:
        pieces = self._placed(self._around.flush())
        self._around = start_chunker("sentence" if self._chunking is None else self._chunking)
        self._around_from = None
        return pieces

    def _placed(self, pieces: list[Chunk]) -> list[Chunk]:
        by = self._around_from or 0
        return [replace(piece, start=piece.start + by, end=piece.end + by) for piece in pieces]


_BRACKET = re.compile(r"[\[{]")


def _all(chunking: Chunking, text: str) -> list[Chunk]:
    chunker: Chunker = start_chunker(chunking)
    return [*chunker.feed(text), *chunker.flush()]
