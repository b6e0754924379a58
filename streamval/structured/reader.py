"""JSON in pieces: text of any slicing in, events out. ijson parses; this adds paths and offsets.

A plain object without tasks or observables. JSON is read once: the chunker reads it, and its chunks
carry the events to the schema and to the partial values.
"""

from __future__ import annotations

from copy import copy
from decimal import Decimal
from json import JSONDecoder
from typing import TYPE_CHECKING, Any

import ijson

from streamval.structured.lexemes import (
    LEXEME,
    OPEN_STRING,
    OPENERS,
    STRING_GOES_ON,
    complaint_of,
    ends_escaping,
    with_small_exponents,
)
from streamval.structured.opening import Opening, unfenced
from streamval.structured.reading import Frame, JSONEvent, OpenString, Reading

if TYPE_CHECKING:
    from streamval.structured.reading import Kind, Root

LONG = 64
"""Characters after which a bracket in the text is taken for the beginning of the JSON, if it can
still be. Before that, a first completed key, value or container decides."""

DEEPEST = 201
"""Objects and arrays inside of each other that are read: what pydantic's own parser takes (jiter,
in pydantic-core 2.50). It bounds the cost of paths, which are as long as the nesting is deep."""


class JSONReader:
    """Finds the JSON in a text and reads it as it comes.

    The text before it (a preamble, the opening of a code fence) and after it is skipped. A bracket
    in the text before it that begins no JSON is not mistaken for it. Only the first object or
    array is read. Where the text, or what is in its code fence, begins with an object or array, that
    is the JSON, whatever `root` says; where it is a string, there is none.

    Whole pieces go to the parser. Only where something has completed, a regular expression finds
    its place.

    Args:
        root: Look for an object, or an array, only; by default for the one that comes first.

    Attributes:
        began_at: Offset at which the JSON begins, or `None` so far.
        ended_at: Offset just past its end, or `None` so far.
        error: What is wrong with the JSON, or `None`.
        root: As given.

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
        self.root = root
        self._opening: Opening | None = Opening()
        self._at = 0
        self._before = ""
        self._frames: list[Frame] = []
        self._parser: Any = None
        self._found: Any = None
        self._string: OpenString | None = None
        self._tail: list[str] = []  # the text in which nothing has completed so far
        # Whether an open string ends in a backslash, which escapes the next character.
        self._escaping = False
        # Pieces of an open string that the parser has not got: it would read all of it at each.
        self._unsent: list[str] = []
        # Before it is certain that a bracket begins the JSON: the text from there on, the events.
        self._candidate: list[str] = []
        self._held: list[JSONEvent] = []

    def feed(self, text: str) -> list[JSONEvent]:
        """Take the next piece of text; return what completes in it, in order."""
        events: list[JSONEvent] = []
        while text:
            if self._opening is not None:
                text = self._open(self._opening, text)
            elif self.ended_at is not None or self.error is not None:
                self._at += len(text)
                break
            elif self._parser is None:
                text = self._look_for_it(text)
            elif self.began_at is not None:
                text = self._read(text, events)
            else:  # a character at a time, so that no slicing shows
                text = self._try(text[0]) + text[1:]
                if self.began_at is not None:
                    events += self._held
                    self._held, self._candidate = [], []
        return events

    def read(self, text: str) -> Reading:
        """Like `feed`; also returns the open string and the error."""
        return Reading(self.feed(text), self.open_string, self.error, self.root)

    @property
    def where(self) -> str:
        """The path of what is being written."""
        return self._frames[-1].child() if self._frames else "$"

    @property
    def open_string(self) -> OpenString | None:
        """A string value that has begun and not ended, or `None`."""
        if self._string is None or self.began_at is None or self.error or self._is_key():
            return None
        return self._string

    def __copy__(self) -> JSONReader:
        twin: JSONReader = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._opening = copy(self._opening)
        twin._frames = [copy(frame) for frame in self._frames]
        twin._candidate = list(self._candidate)
        twin._held = list(self._held)
        twin._tail, twin._unsent = list(self._tail), []
        if self._parser is not None and self.ended_at is None and self.error is None:
            # A parser cannot be copied, but led to the same place by a shorter way.
            try:
                twin._start_parser(self._way() + "".join(self._tail))
            except (ijson.JSONError, ValueError, SystemError, ArithmeticError) as error:
                # The original has not sent all of it to its parser, and so has not seen it yet.
                twin.error = f"{self.where}: {complaint_of(error)}"
        return twin

    def _way(self) -> str:
        return "".join(frame.shortest_way() for frame in self._frames)

    def _start_parser(self, text: str = "") -> None:
        self._found = ijson.sendable_list()
        self._parser = ijson.basic_parse_coro(self._found)
        if text:
            self._parser.send(_encoded(text))
            del self._found[:]

    def _open(self, opening: Opening, text: str) -> str:
        """Find out what the text begins with; returns what of it is to be read."""
        known = opening.feed(text)
        if known is None or opening.kind == "string":
            return ""
        self._opening, self._at = None, opening.at
        if opening.kind == "json":
            self._start_parser()
        return known

    def _look_for_it(self, text: str) -> str:
        """Skip to the next bracket that may begin it; returns the text from there on."""
        behind = len(self._before)
        found = OPENERS[self.root].search(self._before + text, behind)
        skipped = len(text) if found is None else found.start() - behind
        self._at += skipped
        self._before = (self._before + text[:skipped])[-1:]
        if found is not None:
            self._start_parser()
            self._candidate, self._held, self._tail = [], [], []
        return text[skipped:]

    def _try(self, char: str) -> str:
        """Read on where it is not certain yet that the bracket begins the JSON."""
        self._candidate.append(char)
        begun = self._frames[0].start if self._frames else self._at
        left = self._read(char, self._held)
        certain = self._is_certain(begun)
        if self.error is not None and not certain:
            # It began no JSON: look on behind its bracket.
            text = "".join(self._candidate)
            self._at -= len(text) - 1
            self._before, self._frames, self._parser = text[0], [], None
            self._string, self.error = None, None
            return text[1:]
        if certain:
            self.began_at = begun
        return left

    def _is_certain(self, begun: int) -> bool:
        last = self._held[-1].kind if self._held else None
        return last in ("key", "value", "end") or self._at - begun > LONG

    def _read(self, text: str, events: list[JSONEvent]) -> str:
        """Read until the JSON ends; returns the text that is left."""
        broken: Exception | None = None
        self._tail.append(text)
        self._at += len(text)
        if self._string is not None and self._string_goes_on(text):
            self._string = self._string.and_then(text)
            self._unsent.append(text)
            return ""
        try:
            self._parser.send(_encoded("".join((*self._unsent, text))))
        except ArithmeticError:
            broken = self._read_huge_number()
        except (ijson.JSONError, ValueError, SystemError) as error:
            broken = error
        if isinstance(broken, SystemError):  # a number of thousands of digits
            del self._found[-1:]  # ijson left it half made
        self._unsent = []
        if self._found:
            text = self._place(events)
        elif self._string is not None:
            self._string = self._string.and_then(text)
            self._escaping = ends_escaping(text[1:] if self._escaping else text)
        elif '"' in text:
            self._open_string()
        if self.ended_at is not None:
            return text
        if broken is not None and self.error is None:
            self.error = f"{self.where}: {complaint_of(broken)}"
        return ""

    def _read_huge_number(self) -> Exception | None:
        """Read the tail again, with a smaller exponent where a `Decimal` cannot hold it.

        Its value as a float is the same: infinity, or zero.
        """
        done = list(self._found)
        self._start_parser(self._way())
        try:
            self._parser.send(_encoded(with_small_exponents("".join(self._tail))))
        except (ijson.JSONError, ValueError, SystemError, ArithmeticError) as error:
            self._found[:] = self._found or done
            return error
        return None

    def _place(self, events: list[JSONEvent]) -> str:
        """Give the parser's events their paths and offsets; returns the text behind the last."""
        frames, text = self._frames, "".join(self._tail)
        offset, done = self._at - len(text), 0
        for found, value in self._found:
            lexeme = LEXEME.match(text, done)
            assert lexeme is not None
            start, end = lexeme.span(1)
            if found == "map_key":
                frames[-1].key = value
                frames[-1].since.append(text[done:end])
                events.append(JSONEvent("key", self.where, value, offset + start, offset + end))
            elif found == "start_map" or found == "start_array":  # noqa: PLR1714  this is quicker
                path, opener = self.where, text[start]
                if frames:
                    frames[-1].since.append(text[done:start])
                frames.append(Frame(opener, path, offset + start))
                kind: Kind = "start_object" if opener == "{" else "start_array"
                events.append(JSONEvent(kind, path, None, offset + start, offset + end))
                if len(frames) > DEEPEST:
                    self.error = f"it nests more than {DEEPEST} objects and arrays"
                    break
            else:
                if found == "end_map" or found == "end_array":  # noqa: PLR1714
                    frame = frames.pop()
                    event = JSONEvent("end", frame.path, None, frame.start, offset + end)
                else:
                    number = float(value) if isinstance(value, Decimal) else value
                    event = JSONEvent("value", self.where, number, offset + start, offset + end)
                events.append(event)
                if not frames:
                    self.ended_at = offset + end
                    done = end
                    break
                parent = frames[-1]
                parent.key, parent.has_value, parent.since = None, True, []
                parent.index += 1
            done = end
        del self._found[:]
        rest = text[done:]
        self._tail = [rest] if rest else []
        self._string = None
        if rest and self.ended_at is None:
            self._open_string()
        return rest

    def _open_string(self) -> None:
        """Note a string that has begun since the last event."""
        text = "".join(self._tail)
        if quote := OPEN_STRING.match(text):
            start, begun = self._at - len(text) + quote.end() - 1, text[quote.end() :]
            self._string = OpenString(start, "", 0, escaped=False).and_then(begun)
            self._escaping = ends_escaping(begun)

    def _string_goes_on(self, text: str) -> bool:
        """Whether the open string neither ends in this text nor breaks."""
        found = STRING_GOES_ON.match("\\" + text if self._escaping else text)
        if found is None:
            return False
        self._escaping = bool(found[1])
        return True

    def _is_key(self) -> bool:
        return (
            bool(self._frames) and self._frames[-1].opener == "{" and self._frames[-1].key is None
        )


def json_in(text: str, root: Root | None = None) -> str:
    """The JSON that a `JSONReader` finds in a whole text, or what comes closest to it.

    Example:
        >>> json_in('Here you are: {"n": 1}. Anything else?')
        '{"n": 1}'
    """
    opening = Opening()
    opening.feed(text)
    if opening.is_string:
        return unfenced(text)
    begins = opening.at
    if opening.kind != "json":
        opener = OPENERS[root].search(text)
        if opener is None:
            return unfenced(text)
        begins = opener.start()
    try:  # mostly the first bracket begins it, and Python's own parser is quick
        _, end = _DECODER.raw_decode(text, begins)
    except (ValueError, RecursionError):
        reader = JSONReader(root=root)
        reader.feed(text)
        return unfenced(text[reader.began_at : reader.ended_at])
    return text[begins:end]


def _no_constant(name: str) -> None:
    raise ValueError(name)


_DECODER = JSONDecoder(parse_constant=_no_constant)


def _encoded(text: str) -> bytes:
    return text.encode(errors="replace")
