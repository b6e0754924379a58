"""What a requirement that judges prose sees of chunks of JSON (`JSONProse`), and of calls of tools (`ToolProse`)."""

from __future__ import annotations

import json
import re
from copy import copy, deepcopy
from dataclasses import replace
from typing import TypeVar

from streamval.chunkers.base import Chunker
from streamval.chunkers.chunking import Chunking, start_chunker
from streamval.chunkers.json import JSONChunk, JSONDelta
from streamval.chunkers.tool import ToolChunk
from streamval.structured.as_read import unescaped
from streamval.structured.json_events import JSONEvent, OpenString
from streamval.structured.reader import CERTAIN_AFTER
from streamval.types.chunks import Chunk

T = TypeVar("T")


class _String:
    """A string that is being written: its pieces are judged before it ends.

    Args:
        start: The offset of its quotation mark in the raw text.
        chunking: How it is cut.

    Attributes:
        judged_to: The offset up to which it has been fed.
    """

    def __init__(self, start: int, chunking: Chunking) -> None:
        self.start = start
        self.chunker = start_chunker(chunking)
        self.judged_to = start + 1
        self._left = ""  # an escape that has not ended
        self._size = 0  # decoded characters so far

    def feed(self, raw: str) -> list[str]:
        """Take more of it, as written. Return the pieces that are complete."""
        self.judged_to += len(raw)
        raw = self._left + raw
        self._left = _UNFINISHED.search(raw)[1]  # type: ignore[index]
        text: str = json.loads(f'"{raw[: len(raw) - len(self._left)]}"', strict=False)
        return self._cut(
            text.encode(errors="replace").decode()
        )  # a lone surrogate as the parser reads it

    def end(self, value: str) -> list[str]:
        """Take the whole string. Return the last pieces."""
        return self._cut(value[self._size :]) + self.rest()

    def rest(self) -> list[str]:
        """Return the last pieces of what has been fed."""
        return [piece.text for piece in self.chunker.flush()]

    def _cut(self, text: str) -> list[str]:
        self._size += len(text)
        return [piece.text for piece in self.chunker.feed(text)]

    def __copy__(self) -> _String:
        twin: _String = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, chunker=copied(self.chunker))
        return twin


# At the end of a text: the first half of a surrogate pair, and the beginning of an escape, if they are there.
_UNFINISHED = re.compile(
    r"(?<!\\)(?:\\\\)*((?:\\u[dD][89abAB][0-9a-fA-F]{2})?(?:\\(?:u[0-9a-fA-F]{0,3})?)?)\Z"
)


def copied(chunker: T) -> T:
    """Return an independent copy: deep, unless the chunker has a `__copy__`."""
    return copy(chunker) if hasattr(type(chunker), "__copy__") else deepcopy(chunker)


class JSONProse:
    """Takes chunks of JSON, and returns the text in them: each string as one chunk, decoded.

    Such a chunk is a `JSONChunk`: it has the value and its path, and its `start` and `end` are the
    place of the value in the raw text. Text around the JSON, such as a preamble, is cut as prose; so is
    what follows where the JSON breaks off.

    Args:
        chunking: How a string is cut further, as it is being written; by default it is not cut. No chunk reaches
            across strings.
        keys: Whether keys are chunks too, for a requirement that judges whatever is delivered.
        scalars: Whether numbers, true, false and null are chunks too.

    Attributes:
        settled: The offset in the raw text up to which every string has been returned: a string that is
            being written may still fail, so none of it should be delivered.

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
        self._around = self._prose_chunker()
        self._around_from: int | None = None  # where `_around` began, in the raw text
        # Text that may turn out to be, or not to be, JSON: what no event and no piece has settled.
        self._pending: list[str] = []
        self._end = 0
        self._depth = 0
        self._broken = False
        self._string: _String | None = None  # that is being written, if strings are cut further
        self.settled = 0

    def take(self, chunk: Chunk) -> list[Chunk]:
        """Return the pieces of text that a chunk completes."""
        text = chunk.separator + chunk.text
        self._pending.append(text)
        self._end = chunk.end
        reading = chunk.reading if isinstance(chunk, JSONDelta) else None
        events = [] if reading is None else reading.events
        self._broken = self._broken or (reading is not None and reading.error is not None)
        begun = None if self._broken or reading is None else reading.begun
        if self._depth and not events and not self._broken:
            return self._more_of(begun, text, chunk.end)  # of a string, or of nothing
        raw = "".join(self._pending)
        begin = at = chunk.end - len(raw)
        pieces: list[Chunk] = []
        for event in events:
            if event.kind in ("start_object", "start_array"):
                if not self._depth:
                    pieces += self._end_around(raw[at - begin : event.start - begin], at)
                self._depth += 1
            elif event.kind == "end":
                self._depth -= 1
            else:
                pieces += self._inside(event)
            at = self.settled = event.end
        if self._broken or not self._depth:
            at = max(at, self._break_off(pieces))
            outside = raw[at - begin :]
            size = len(outside) if self._broken else _certain_size(outside)
            pieces += self._cut_around(outside[:size], at)
            at += size
        self._pending = [raw[at - begin :]]
        if pieces:
            self.settled = max(self.settled, pieces[-1].end)
        if self._depth:
            pieces += self._more_of(begun, raw[at - begin :], chunk.end)
        return pieces

    def flush(self) -> list[Chunk]:
        """Return the rest of the text: behind the JSON, or from where it breaks off."""
        pieces: list[Chunk] = []
        judged_to = self._break_off(pieces)
        rest = "".join(self._pending)
        begin = self._end - len(rest)
        self._pending = []
        return pieces + self._end_around(rest[max(judged_to - begin, 0) :], max(begin, judged_to))

    def __copy__(self) -> JSONProse:
        twin: JSONProse = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._around = copied(self._around)
        twin._pending, twin._string = self._pending.copy(), copy(self._string)
        return twin

    def _more_of(self, begun: object, text: str, end: int) -> list[Chunk]:
        """Return the pieces of a string that is being written; `text` is the last of the raw text, up to `end`."""
        if self._chunking is None or not isinstance(begun, OpenString):
            return []
        if self._string is None:
            self._string = _String(begun.start, self._chunking)
            text = text[len(text) - (end - begun.start) + 1 :]
        # None of it is delivered before all of it has been judged.
        start = begun.start
        return [Chunk(piece, 0, start, start) for piece in self._string.feed(text)]

    def _break_off(self, pieces: list[Chunk]) -> int:
        """End a string that will not end. Return the offset up to which it has been judged."""
        string, self._string = self._string, None
        if string is None:
            return 0
        pieces += [Chunk(piece, 0, string.start, string.start) for piece in string.rest()]
        return string.judged_to

    def _inside(self, event: JSONEvent) -> list[Chunk]:
        """Return the pieces of a key or a scalar value."""
        value = event.value
        begun, self._string = self._string, None
        is_text = isinstance(value, str)
        if not (self._keys if event.kind == "key" else is_text or self._scalars):
            return []
        text = value if is_text else json.dumps(value)
        if not text.strip():
            return []
        whole: Chunk = JSONChunk(
            text,
            0,
            event.start,
            event.end,
            path=event.path,
            value=value,
            is_key=event.kind == "key",
        )
        if self._chunking is None:
            return [whole]
        texts = (begun or _String(event.start, self._chunking)).end(text)
        # Only the last piece covers the value: none of it is delivered before.
        first = [replace(whole, text=text, end=event.start) for text in texts[:-1]]
        return first + [replace(whole, text=text) for text in texts[-1:]]

    def _prose_chunker(self) -> Chunker:
        return start_chunker("sentence" if self._chunking is None else self._chunking)

    def _cut_around(self, text: str, begin: int) -> list[Chunk]:
        """Cut text outside of the JSON."""
        if not text:
            return []
        if self._around_from is None:
            self._around_from = begin
        return self._placed(self._around.feed(text))

    def _end_around(self, text: str, begin: int) -> list[Chunk]:
        """Cut the last text before the JSON, or before the end."""
        pieces = self._cut_around(text, begin) + self._placed(self._around.flush())
        self._around = self._prose_chunker()
        self._around_from = None
        return pieces

    def _placed(self, pieces: list[Chunk]) -> list[Chunk]:
        by = self._around_from or 0
        return [
            replace(p, text=unescaped(p.text), start=p.start + by, end=p.end + by) for p in pieces
        ]


class ToolProse:
    """Takes chunks of calls of tools, and returns the text in them: the name, each key, each value, decoded.

    A piece has the place of the chunk that completes it.

    Args:
        chunking: How a string is cut further; by default it is not cut.

    Example:
        >>> from streamval.chunkers.tool import ToolChunker
        >>> from streamval.types.deltas import ToolCallDelta
        >>> prose = ToolProse()
        >>> call = ToolCallDelta(0, "c1", "weather", '{"city": "P\\\\u0061ris"}')
        >>> [piece.text for chunk in ToolChunker().feed(call) for piece in prose.take(chunk)]
        ['weather', 'city', 'Paris']
    """

    def __init__(self, chunking: Chunking = None) -> None:
        self._chunking = chunking
        # With the size of the arguments so far, and that of the white space before them.
        self._calls: dict[int, tuple[JSONProse, int, int]] = {}

    def take(self, chunk: Chunk) -> list[Chunk]:
        """Return the pieces of text that a chunk completes."""
        if not isinstance(chunk, ToolChunk):  # the end of the stream has none
            return []
        if chunk.part == "name":
            return [chunk]
        prose, size, blank = self._calls.get(chunk.call) or (self._new(), 0, 0)
        if chunk.part == "end":
            pieces = prose.flush()
        else:
            end = size + len(chunk.text)
            if blank == size:
                blank += len(chunk.text) - len(chunk.text.lstrip())
            self._calls[chunk.call] = prose, end, blank
            pieces = prose.take(JSONDelta(chunk.text, 0, size, end, reading=chunk.reading))
        return [_placed_in(chunk, piece, blank) for piece in pieces]

    def flush(self) -> list[Chunk]:
        """Return an empty list: the end of each call has come before."""
        return []

    def _new(self) -> JSONProse:
        return JSONProse(self._chunking, keys=True, scalars=True)

    def __copy__(self) -> ToolProse:
        twin = ToolProse(self._chunking)
        twin._calls = {
            call: (copy(prose), size, blank) for call, (prose, size, blank) in self._calls.items()
        }
        return twin


def _placed_in(chunk: ToolChunk, piece: Chunk, blank: int) -> Chunk:
    """Return a piece of a call with the place of the chunk that completes it, and its own within the arguments."""
    if isinstance(piece, JSONChunk):
        within, call = (piece.start - blank, piece.end - blank), chunk.call
        return replace(piece, start=chunk.start, end=chunk.end, within=within, call=call)
    return replace(piece, start=chunk.start, end=chunk.end)


_BRACKET = re.compile(r"[\[{]")


def _certain_size(text: str) -> int:
    """Return the length of the text before a bracket that may begin the JSON."""
    found = _BRACKET.search(text, max(len(text) - CERTAIN_AFTER, 0))
    return len(text) if found is None else found.start()
