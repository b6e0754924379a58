"""JSON in pieces: text of any slicing in, what completes out. ijson parses; this says where.

A plain object without tasks or observables, used by `JSONChunker`, by the schema requirement and
for the partial objects that a pipeline tells its subscribers of.
"""

from __future__ import annotations

import re
from copy import copy
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

import ijson

Root: TypeAlias = Literal["object", "array"]
Kind: TypeAlias = Literal["start_object", "start_array", "key", "value", "end"]

LONG = 64
"""Characters after which a bracket in the text around is taken for the beginning of the JSON, if
it could be so far. Before that, a first completed key or value settles it."""

_OUTSIDE = re.compile(
    r"""
    "[^"\\]*"?            # a string, or its beginning
    | \s* [:,] \s* | \s+
    | [{}\[\]]
    | (true | false | null | -?[1-9]\d* | .)
    """,
    re.VERBOSE | re.DOTALL,
)
_INSIDE = re.compile(r'[^"\\]*"|[^"\\]+|\\')
HEAD = 128
"""Characters of a string's beginning that are kept."""

_PLAIN_KEY = re.compile(r"[^\W\d]\w*")


class JSONEvent(NamedTuple):
    """Something that has just completed in a stream of JSON.

    Attributes:
        kind: An object or array begins, a key, a scalar value, or the end of an object or array.
        path: Where: ``$.people[3].name``.
        value: Of a scalar, or the key.
        start: Offset of its first character in the text; of an end, that of the whole object or
            array.
        end: Offset just past its last character.
    """

    kind: Kind
    path: str
    value: Any
    start: int
    end: int


@dataclass(slots=True)
class _Frame:
    """An open object or array."""

    opener: str
    path: str
    start: int
    key: str | None = None
    index: int = 0
    has_value: bool = False
    # The raw text since its last completed value, without a child that is open.
    since: list[str] = field(default_factory=list)

    def __copy__(self) -> _Frame:
        return replace(self, since=list(self.since))

    def child(self) -> str:
        """The path of the value that is due."""
        if self.opener == "[":
            return f"{self.path}[{self.index}]"
        return self.path if self.key is None else self.path + _step(self.key)

    def shortest_way(self) -> str:
        """Text that leads a parser to the same place in this object or array."""
        before = {"[": '""', "{": '"":""'}[self.opener] if self.has_value else ""
        return self.opener + before + "".join(self.since)


@dataclass(slots=True)
class OpenString:
    """A string that has begun: how it begins, and how long it is so far, in raw text.

    Attributes:
        head: Its first characters, at most `HEAD`.
        size: How many it has.
        escaped: Whether there is an escape among them, which may stand for anything.
        start: Offset of its quotation mark.
    """

    start: int
    head: str = ""
    size: int = 0
    escaped: bool = False

    def add(self, piece: str) -> None:
        """It goes on."""
        if len(self.head) < HEAD:
            self.head = (self.head + piece)[:HEAD]
        self.size += len(piece)
        self.escaped = self.escaped or piece == "\\"


class JSONReader:
    """Finds the JSON in a text and reads it as it comes.

    The text before it (a preamble, the opening of a code fence) and after it is skipped. A bracket
    in the text before it that begins no JSON is not mistaken for it. Only the first object or
    array is read.

    Args:
        root: Look for an object, or an array, only; by default for whichever comes first.

    Attributes:
        began_at: Offset at which the JSON begins, or `None` so far.
        ended_at: Offset just past its end, or `None` so far.
        error: What is wrong with the JSON, or `None`.

    Example:
        >>> reader = JSONReader()
        >>> for piece in ['Sure: {"na', 'me": "Ann", "a', 'ge": 3', "1}"]:
        ...     for event in reader.feed(piece):
        ...         print(event.kind, event.path, event.value)
        start_object $ None
        key $.name name
        value $.name Ann
        key $.age age
        value $.age 31
        end $ None
    """

    def __init__(self, *, root: Root | None = None) -> None:
        self.began_at: int | None = None
        self.ended_at: int | None = None
        self.error: str | None = None
        openers = {"object": r"\{", "array": r"\["}.get(root or "", r"[{\[]")
        # Behind a word, a bracket is an index or a call.
        self._opener = re.compile(rf"(?<![\w)\]]){openers}")
        self._at = 0
        self._before = ""
        self._candidate: list[str] = []
        self._held: list[JSONEvent] = []
        self._frames: list[_Frame] = []
        self._parser: Any = None
        self._found: Any = ijson.sendable_list()
        self._string: OpenString | None = None
        self._escaped = False
        self._quoted = self._literal = (0, -1)  # where the last string, and anything else, stood

    def feed(self, text: str) -> list[JSONEvent]:
        """Take the next piece of text; return what completes in it, in order."""
        events: list[JSONEvent] = []
        while text:
            if self.ended_at is not None or self.error is not None:
                self._at += len(text)
                break
            text = self._look_for_it(text) if self._parser is None else self._read(text, events)
        return events

    @property
    def where(self) -> str:
        """The path of what is being written."""
        return self._frames[-1].child() if self._frames else "$"

    @property
    def open_string(self) -> OpenString | None:
        """A string value that has begun and not ended, or `None`."""
        if self._string is None or self.began_at is None or self._is_key():
            return None
        return self._string

    def __copy__(self) -> JSONReader:
        twin: JSONReader = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._frames = [copy(frame) for frame in self._frames]
        twin._candidate = list(self._candidate)
        twin._held = list(self._held)
        twin._string = None if self._string is None else replace(self._string)
        if self._parser is not None:
            # A parser cannot be copied, but led to the same place by a shorter way.
            twin._start_parser("".join(frame.shortest_way() for frame in self._frames))
        return twin

    def _start_parser(self, text: str = "") -> None:
        self._found = ijson.sendable_list()
        self._parser = ijson.basic_parse_coro(self._found)
        if text:
            self._parser.send(text.encode(errors="replace"))
            del self._found[:]

    def _look_for_it(self, text: str) -> str:
        """Skip to the next bracket that may begin it; returns the text from there on."""
        behind = len(self._before)
        found = self._opener.search(self._before + text, behind)
        skipped = len(text) if found is None else found.start() - behind
        self._at += skipped
        self._before = (self._before + text[:skipped])[-1:]
        if found is not None:
            self._start_parser()
            self._candidate, self._held = [], []
        return text[skipped:]

    def _read(self, text: str, events: list[JSONEvent]) -> str:
        """Read until the JSON ends or turns out to be none; returns the text that is left."""
        done = 0
        parser, frames = self._parser, self._frames
        while done < len(text):
            piece = self._next_piece(text, done)
            try:
                parser.send(piece.encode(errors="replace"))
            # A number of thousands of digits is a SystemError.
            except (ijson.JSONError, ValueError, SystemError) as error:
                return self._broken(error, text[done:])
            done += len(piece)
            self._at += len(piece)
            if frames:
                frames[-1].since.append(piece)
            if self.began_at is None:
                self._candidate.append(piece)
            if self._found:
                self._take(piece)
                if self.began_at is not None:
                    events += self._held
                    self._held = []
                if self.ended_at is not None:
                    break
            if self.began_at is None and self._frames and self._at - self._frames[0].start > LONG:
                self.began_at = self._frames[0].start
                events += self._held
                self._held = []
        return text[done:]

    def _next_piece(self, text: str, at: int) -> str:
        """The next piece, which completes at most one thing: the same one whatever the slicing."""
        in_number = self._literal[1] == self._at
        # One character at a time where more would let the slicing show.
        end = at + 1 if in_number or self.began_at is None else len(text)
        if self._string is not None:
            return self._piece_of_string(text, at, end)
        match = _OUTSIDE.match(text, at, end)
        assert match is not None
        piece = match[0]
        if piece[0] == '"':
            if len(piece) == 1 or piece[-1] != '"':
                self._string = OpenString(self._at)
                self._string.add(piece[1:])
            self._quoted = (self._at, self._at + len(piece))
        elif match[1]:
            start = self._literal[0] if in_number else self._at
            self._literal = (start, self._at + len(piece))
        return piece

    def _piece_of_string(self, text: str, at: int, end: int) -> str:
        assert self._string is not None
        if self._escaped:
            self._escaped = False
            self._string.add(text[at])
            return text[at]
        match = _INSIDE.match(text, at, end)
        assert match is not None
        piece = match[0]
        if piece[-1] == '"':
            self._string = None
            self._quoted = (self._quoted[0], self._at + len(piece))
        else:
            self._escaped = piece == "\\"
            self._string.add(piece)
        return piece

    def _is_key(self) -> bool:
        return (
            bool(self._frames) and self._frames[-1].opener == "{" and self._frames[-1].key is None
        )

    def _take(self, piece: str) -> None:
        """What the parser has found, with its place."""
        for found, value in self._found:
            if found in ("start_map", "start_array"):
                self._begin(piece)
            elif found == "map_key":
                self._frames[-1].key = value
                self._tell("key", self.where, value, *self._quoted)
            elif found in ("end_map", "end_array"):
                frame = self._frames.pop()
                self._complete("end", frame.path, None, frame.start, self._at)
            else:
                number = float(value) if isinstance(value, Decimal) else value
                start, end = self._quoted if found == "string" else self._literal
                if found == "number":  # what follows it ended it
                    end = min(end, self._at - len(piece))
                self._complete("value", self.where, number, start, end)
                if found == "number":
                    self._frames[-1].since = [piece]
        del self._found[:]

    def _begin(self, opener: str) -> None:
        path = self.where
        if self._frames:
            self._frames[-1].since.pop()
        self._frames.append(_Frame(opener, path, self._at - 1))
        self._tell(
            "start_object" if opener == "{" else "start_array", path, None, self._at - 1, self._at
        )

    def _complete(self, kind: Kind, path: str, value: Any, start: int, end: int) -> None:
        self._tell(kind, path, value, start, end)
        if not self._frames:
            self.ended_at = self._at
            return
        parent = self._frames[-1]
        parent.key, parent.has_value, parent.since = None, True, []
        parent.index += 1

    def _tell(self, kind: Kind, path: str, value: Any, start: int, end: int) -> None:
        self._held.append(JSONEvent(kind, path, value, start, end))
        if self.began_at is None and kind in ("key", "value", "end"):
            self.began_at = self._held[0].start

    def _broken(self, error: Exception, rest: str) -> str:
        """It is no JSON: look on behind its bracket, or, once it has begun, note the error."""
        self._string, self._escaped = None, False
        if self.began_at is None:
            text = "".join(self._candidate) + rest
            self._at -= sum(map(len, self._candidate)) - 1
            self._before, self._frames, self._parser = text[0], [], None
            return text[1:]
        self.error = f"{self.where}: {str(error).splitlines()[0].strip(' .')}"
        return rest


@lru_cache(1024)
def _step(key: str) -> str:
    """A field's part of a path: ``.name``, or in brackets what is no word."""
    return f".{key}" if _PLAIN_KEY.fullmatch(key) else f"[{key!r}]"
