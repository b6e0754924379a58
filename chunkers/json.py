"""`JSONChunker`: a chunk a value, with its path. `JSONDeltaChunker`: a chunk a delta, read as JSON."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import Any

from streamval.chunkers.base import PendingChunker, not_text
from streamval.structured.json_events import JSONEvent, Reading, Root
from streamval.structured.reader import JSONReader
from streamval.types.channels import Channel
from streamval.types.chunks import Chunk


@dataclass(frozen=True, init=False)
class JSONDelta(Chunk):
    """A chunk of JSON with its parse events, so that it is parsed only once.

    Attributes:
        reading: The result of parsing it with a `JSONReader`.
    """

    reading: Reading | None = field(default=None, compare=False, repr=False)

    def __init__(
        self,
        text: str,
        index: int,
        start: int,
        end: int,
        separator: str = "",
        attempt: int = 1,
        channel: Channel = "text",
        call: int | None = None,
        masked: bool = False,
        reading: Reading | None = None,
    ) -> None:
        Chunk.__init__(self, text, index, start, end, separator, attempt, channel, call, masked)
        self.__dict__["reading"] = reading


@dataclass(frozen=True)
class JSONChunk(JSONDelta):
    """A chunk of JSON that ends with a value.

    Attributes:
        path: The path of its value: ``$.people[3].name``. `None` if the chunk completes no value.
        value: A string, a number, a bool or null, decoded; `None` for the end of an object or
            array: its values were separate chunks.
        ends: Whether this is the closing bracket of the object or array at `path`.
        is_key: Whether it is a key, which has the value of its text.
        within: Of a piece of a call of a tool, its offsets in the arguments.
    """

    path: str | None = None
    value: Any = None
    ends: bool = False
    is_key: bool = False
    within: tuple[int, int] | None = None


def cuts_json(chunking: object) -> bool:
    """Return whether a value of `chunking=` cuts JSON, so that its chunks have been parsed.

    Example:
        >>> cuts_json("json"), cuts_json("sentence")
        (True, False)
    """
    is_delta = chunking is JSONDeltaChunker or isinstance(chunking, JSONDeltaChunker)
    return is_delta or cuts_json_values(chunking)


def cuts_json_values(chunking: object) -> bool:
    """Return whether a value of `chunking=` makes each value in JSON a chunk."""
    return chunking in ("json", JSONChunker) or isinstance(chunking, JSONChunker)


class JSONDeltaChunker:
    """Returns each delta as a chunk, as `DeltaChunker` does, and parses it as JSON.

    A pipeline with a `format` uses it, so that the schema and the partial values share one
    parser.

    Args:
        root: Look for an ``"object"``, or an ``"array"``, only.
        only_json: Whether the text is nothing but JSON, so that its first bracket is certain to begin it.

    Example:
        >>> chunker = JSONDeltaChunker()
        >>> [event.path for chunk in chunker.feed('{"n": 1, ') for event in chunk.reading.events]
        ['$', '$.n', '$.n']
    """

    alias = "delta"

    def __init__(self, *, root: Root | None = None, only_json: bool = False) -> None:
        self._reader = JSONReader(root=root, only_json=only_json)
        self._index = 0
        self._start = 0

    def feed(self, delta: str) -> list[Chunk]:
        """Return the delta as a chunk."""
        if not isinstance(delta, str):
            raise not_text(delta)
        if not delta:
            return []
        end = self._start + len(delta)
        chunk = JSONDelta(delta, self._index, self._start, end, reading=self._reader.read(delta))
        self._index += 1
        self._start = end
        return [chunk]

    def flush(self) -> list[Chunk]:
        """Return an empty list: no text is pending."""
        return []

    def resume(self, text: str) -> None:
        """Continue after a text that has been cut already."""
        self._reader.feed(text)

    def __copy__(self) -> JSONDeltaChunker:
        twin: JSONDeltaChunker = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._reader = copy(self._reader)
        return twin


class JSONChunker(PendingChunker):
    """Cuts JSON after each value that completes.

    The JSON is the first object or array in the text. A preamble or the opening of a code fence
    becomes the separator of its first chunk. Text after the JSON, or without JSON, is a last chunk
    without a path. An object or array is not a chunk as a whole, as it can be of any length: its
    closing bracket is a chunk.

    Cost is linear, and memory holds only the value that is being written. Invalid JSON is not an
    error here: the rest of the text is one chunk without a path.

    Args:
        root: Look for an ``"object"``, or an ``"array"``, only.
        only_json: Whether the text is nothing but JSON, so that its first bracket is certain to begin it.
        max_chars: A chunk that reaches this length is cut, and has no path. The rest of its value,
            if any, is a chunk with the path and the whole value.

    Example:
        >>> chunker = JSONChunker()
        >>> for delta in ['Here: {"people": [{"na', 'me": "Ann"}], "n": 1', '2}']:
        ...     for chunk in chunker.feed(delta):
        ...         print(chunk.path, chunk.text)
        $.people[0].name "Ann"
        $.people[0] }
        $.people ]
        $.n 12
        $ }
    """

    alias = "json"

    def __init__(
        self, *, root: Root | None = None, only_json: bool = False, max_chars: int | None = None
    ) -> None:
        super().__init__(max_chars=max_chars)
        self._reader = JSONReader(root=root, only_json=only_json)
        self._read_from = 0
        self._unused: list[JSONEvent] = []

    def advance(self, delta: str) -> list[Chunk]:
        """Cut behind each value that completes."""
        self.keep(delta)
        chunks: list[Chunk] = []
        for event in self._reader.feed(delta):
            self._unused.append(event)
            # A number ends only at the next delimiter, and may have been cut as text before that.
            left = self._read_from + event.end > self._start
            if event.kind in ("value", "end") and left:
                chunks.append(self._cut(event))
        return chunks

    def emit(self, behind: int = 0) -> list[Chunk]:
        """Return text outside values as a chunk without a path."""
        return [
            JSONChunk(
                chunk.text,
                chunk.index,
                chunk.start,
                chunk.end,
                chunk.separator,
                reading=self._reading(),
            )
            for chunk in super().emit(behind)
        ]

    def _reading(self) -> Reading:
        """Return the events since the last chunk."""
        events, self._unused = self._unused, []
        reader = self._reader
        return Reading(events, None, reader.error, reader.root, reader.only_json)

    def resume(self, text: str) -> None:
        """Continue after a text that has been cut already: the rest of its JSON follows."""
        self._reader.feed(text)
        self._read_from = -len(text)

    def flush(self) -> list[Chunk]:
        """Return the rest as text without a path. The next text is searched from its beginning."""
        chunks = super().flush()
        self._reader = JSONReader(root=self._reader.root, only_json=self._reader.only_json)
        self._read_from = self._start + self._length
        return chunks

    def _cut(self, event: JSONEvent) -> Chunk:
        ends = event.kind == "end"
        pending = self.pending()
        size = self._read_from + event.end - self._start
        begins = self._read_from + event.start - self._start
        lead = size - 1 if ends else max(begins, 0)
        chunk = JSONChunk(
            text=pending[lead:size],
            index=self._index,
            start=self._start + lead,
            end=self._start + size,
            separator=pending[:lead],
            reading=self._reading(),
            path=event.path,
            value=event.value,
            ends=ends,
        )
        self.drop(size)
        return chunk

    def __copy__(self) -> JSONChunker:
        twin: JSONChunker = super().__copy__()
        twin._reader, twin._unused = copy(self._reader), list(self._unused)
        return twin
