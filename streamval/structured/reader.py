"""JSON in pieces: text of any slicing in, events with paths and offsets out.

ijson parses, and reports values without offsets. This module adds paths and offsets. JSON is read
once: the chunker reads it, and its chunks carry the events to the schema and to the partial values.

A text goes through up to four states, in this order (`feed`):

1. `_opening` decides whether the text begins with JSON, with a string, or with prose.
2. Prose: `_look_for_it` skips to the next bracket that may begin the JSON.
3. Behind such a bracket `_try` reads one character at a time, until the JSON is certain (`_is_certain`)
   or broken. Broken means that the bracket was prose: the search continues right behind it. One
   character at a time, because otherwise the slicing of the text would show in the result.
4. `_read` sends whole pieces to the parser, until the JSON ends.

Where the parser has reported something, `_place` finds it in the text: `_tail` is the text since the
last event, and `LEXEME` matches one token after another in it, one for each event. So the cost is
linear, and a piece in which nothing completes costs no search at all.

What to watch for when you change this file:

- The parser reads a string again from its beginning with each piece. So pieces of a long open string
  are kept in `_unsent`, and sent only when the string may end (`_string_goes_on`).
- A number ends only at the next delimiter. Its event may come with a later piece than its last digit.
- A parser cannot be copied. `__copy__` builds a new one and sends it the shortest text that leads to
  the same state (`Frame.shortest_way`), then the tail.
- Some inputs make ijson raise odd errors (a huge exponent, thousands of digits): see `_read`.
"""

from __future__ import annotations

from copy import copy
from decimal import Decimal
from json import JSONDecoder
from typing import Any

import ijson

from streamval.structured.json_events import (
    EventKind,
    Frame,
    JSONEvent,
    OpenLiteral,
    OpenString,
    Reading,
    Root,
)
from streamval.structured.lexemes import (
    LEXEME,
    OPEN_LITERAL,
    OPEN_STRING,
    OPENERS,
    STRING_GOES_ON,
    parser_message,
    unfinished_escape,
    with_small_exponents,
)
from streamval.structured.opening import Opening, unfenced

CERTAIN_AFTER = 64
"""Characters after which a bracket in the text is taken for the beginning of the JSON, if it can
still be. Before that, a first completed key, value or container decides."""

MANY_PIECES = 64
"""Pieces without an event in which a number or word is looked for: there may be any number of spaces."""

LONGEST_BLANK = 1024
"""Characters of the longest space between two tokens. Models that are held to JSON may write spaces without end; an
indent of `DEEPEST` levels takes less."""

_DIGITS = "0123456789"

LONG_NUMBER = 64
"""Digits of a number from which on more digits cannot be an error, and are kept until it ends."""

DEEPEST = 201
"""Greatest nesting depth of objects and arrays: the limit of pydantic's own parser (jiter,
in pydantic-core 2.50). It bounds the cost of paths, which are as long as the nesting is deep."""


class JSONReader:
    """Finds the JSON in a text and reads it as it comes.

    The text before it (a preamble, the opening of a code fence) and after it is skipped. A bracket
    in the text before it that does not begin JSON is skipped too. Only the first object or
    array is read. Where the text, or the content of its code fence, begins with an object or array, that
    is the JSON, whatever `root` is; where it is a string, there is no JSON.

    Whole pieces go to the parser. Only where something has completed, a regular expression finds
    its place.

    Args:
        root: Look only for an object, or only for an array; by default for the first of either.
        only_json: Whether the text is nothing but JSON, so that a bracket at its beginning is certain to begin it.

    Attributes:
        began_at: Offset at which the JSON begins, or `None` so far.
        ended_at: Offset just past its end, or `None` so far.
        error: What is wrong with the JSON, or `None`.
        root: As given.
        only_json: As given.

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

    def __init__(self, *, root: Root | None = None, only_json: bool = False) -> None:
        self.began_at: int | None = None
        self.ended_at: int | None = None
        self.error: str | None = None
        self.root = root
        self.only_json = only_json
        self._opening: Opening | None = Opening()
        self._at = 0
        self._char_before = ""
        self._frames: list[Frame] = []
        self._parser: Any = None
        self._parsed: Any = None
        self._string: OpenString | None = None
        self._tail: list[str] = []  # the text in which nothing has completed so far
        self._escape = ""  # the unfinished one at the end of an open string
        # Pieces of an open string that were not sent to the parser, which would read them again each time.
        self._unsent: list[str] = []
        self._digits = 0  # at the end of the text so far
        self._blank = 0  # spaces there
        # While it is uncertain whether a bracket begins the JSON: the text from there on, the events.
        self._candidate: list[str] = []
        self._held: list[JSONEvent] = []

    def feed(self, text: str) -> list[JSONEvent]:
        """Take the next piece of text; return the events in it, in order."""
        events: list[JSONEvent] = []
        while text:
            if self.ended_at is not None or self.error is not None:
                break
            if self.began_at is not None:
                text = self._read(text, events)
            elif self._opening is not None:
                text = self._open(self._opening, text)
            elif self._parser is None:
                text = self._look_for_it(text)
            else:  # a character at a time, so that no slicing shows
                text = self._try(text[0]) + text[1:]
                if self.began_at is not None:
                    events += self._held
                    self._held, self._candidate = [], []
        return events

    def read(self, text: str) -> Reading:
        """Take the next piece of text; return its events, the open value and the error."""
        events = self.feed(text)
        return Reading(events, self.begun, self.error, self.root, self.only_json)

    @property
    def where(self) -> str:
        """The path of the value that is being written."""
        return self._frames[-1].child() if self._frames else "$"

    @property
    def begun(self) -> OpenString | OpenLiteral | None:
        """A string value, a number or a word that has begun and not ended, or a comma; `None` without, and where it is very long."""
        if self.began_at is None or self.ended_at is not None or self.error is not None:
            return None
        if self._string is not None:
            return None if self._is_key() else self._string
        if self._unsent or not 0 < len(self._tail) < MANY_PIECES or not self._frames:
            return None
        text = "".join(self._tail)
        found = OPEN_LITERAL.match(text)
        if found is None or (found[2] and self._is_key()):
            return None
        head = found[1] or found[2]
        return OpenLiteral(self._at - len(text) + found.start(found.lastindex or 0), head)

    def __copy__(self) -> JSONReader:
        twin: JSONReader = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._opening = copy(self._opening)
        twin._frames = [copy(frame) for frame in self._frames]
        twin._candidate = list(self._candidate)
        twin._held = list(self._held)
        twin._tail, twin._unsent = list(self._tail), []
        if self._parser is not None and self.ended_at is None and self.error is None:
            # A parser cannot be copied: rebuild its state from a minimal prefix.
            try:
                twin._start_parser(self._way() + "".join(self._tail))
            except (ijson.JSONError, ValueError, SystemError, ArithmeticError) as error:
                # The original has not sent this text to its parser yet, and so has no error yet.
                twin.error = f"{self.where}: {parser_message(error)}"
        return twin

    def _way(self) -> str:
        return "".join(frame.shortest_way() for frame in self._frames)

    def _start_parser(self, text: str = "") -> None:
        self._parsed = ijson.sendable_list()
        self._parser = ijson.basic_parse_coro(self._parsed)
        if text:
            self._parser.send(_encoded(text))
            del self._parsed[:]

    def _open(self, opening: Opening, text: str) -> str:
        """Decide how the text begins. Return the part that has to be read."""
        known = opening.feed(text)
        if known is None or opening.kind == "string":  # a string has no JSON in it: skip the rest
            return ""
        self._opening, self._at = None, opening.at
        if opening.kind == "json":
            self._start_parser()
            if self.only_json:
                self.began_at = self._at
        return known

    def _look_for_it(self, text: str) -> str:
        """Skip to the next bracket that may begin the JSON. Return the text from there on."""
        behind = len(self._char_before)
        found = OPENERS[self.root].search(self._char_before + text, behind)
        skipped = len(text) if found is None else found.start() - behind
        self._at += skipped
        self._char_before = (self._char_before + text[:skipped])[-1:]
        if found is not None:
            self._start_parser()
            self._candidate, self._held, self._tail = [], [], []
        return text[skipped:]

    def _try(self, char: str) -> str:
        """Read a character while it is uncertain that the bracket begins the JSON. Return the text left."""
        self._candidate.append(char)
        begun = self._frames[0].start if self._frames else self._at  # before `_read` removes frames
        left = self._read(char, self._held)
        certain = self._is_certain(begun)
        if self.error is not None and not certain:
            # The bracket did not begin JSON: search again behind it.
            text = "".join(self._candidate)
            self._at -= len(text) - 1
            self._char_before, self._frames, self._parser = text[0], [], None
            self._string, self.error = None, None
            return text[1:]
        if certain:
            self.began_at = begun
        return left

    def _is_certain(self, begun: int) -> bool:
        last = self._held[-1].kind if self._held else None
        return last in ("key", "value", "end") or self._at - begun > CERTAIN_AFTER

    def _read(self, text: str, events: list[JSONEvent]) -> str:
        """Read until the JSON ends. Return the text that is left."""
        broken: Exception | None = None
        self._tail.append(text)
        self._at += len(text)
        if self._goes_on(text):
            self._unsent.append(text)
            return ""
        try:
            self._parser.send(_encoded("".join((*self._unsent, text)) if self._unsent else text))
        except ArithmeticError:
            broken = self._read_huge_number()
        except (ijson.JSONError, ValueError, SystemError) as error:
            broken = error
        if isinstance(broken, SystemError):  # a number of thousands of digits
            del self._parsed[-1:]  # ijson left it half made
        self._unsent = []
        if self._parsed:
            text = self._place(events)
        elif self._string is not None:
            self._string = self._string.and_then(text)
            self._escape = unfinished_escape(self._escape + text)
        elif '"' in text:
            self._open_string()
        if self.ended_at is not None:
            return text
        if broken is not None and self.error is None:
            self.error = f"{self.where}: {parser_message(broken)}"
        return ""

    def _too_blank(self) -> str:
        return f"{self.where}: more than {LONGEST_BLANK:,} spaces in a row"

    def _goes_on(self, text: str) -> bool:
        """Return whether the text is only more of a string or of a long number, or too many spaces."""
        if self._string is not None:
            if self._string_goes_on(text):
                self._string = self._string.and_then(text)
                return True
        elif text.isspace():
            self._blank += len(text)
            if self._blank > LONGEST_BLANK:
                self.error = self._too_blank()
                return True
            self._digits = 0
            return False
        elif text.isascii() and text.isdigit():
            self._blank = 0
            self._digits += len(text)
            return self._digits > LONG_NUMBER
        self._blank = 0
        self._digits = len(text) - len(text.rstrip(_DIGITS)) if text[-1] in _DIGITS else 0
        return False

    def _read_huge_number(self) -> Exception | None:
        """Read the tail again, with a smaller exponent where a `Decimal` cannot hold it.

        Its value as a float is the same: infinity, or zero.
        """
        done = list(self._parsed)
        self._start_parser(self._way())
        try:
            self._parser.send(_encoded(with_small_exponents("".join(self._tail))))
        except (ijson.JSONError, ValueError, SystemError, ArithmeticError) as error:
            self._parsed[:] = self._parsed or done
            return error
        return None

    def _place(self, events: list[JSONEvent]) -> str:
        """Add paths and offsets to the parser's events. Return the text behind the last event."""
        frames, text = self._frames, "".join(self._tail)
        offset, done = self._at - len(text), 0
        for found, value in self._parsed:
            lexeme = LEXEME.match(text, done)
            assert lexeme is not None
            start, end = lexeme.span(1)
            if start - done > LONGEST_BLANK:
                self.error = self._too_blank()
                break
            if found == "map_key":
                frames[-1].key = value
                frames[-1].since.append(text[done:end])
                events.append(JSONEvent("key", self.where, value, offset + start, offset + end))
            elif found == "start_map" or found == "start_array":  # noqa: PLR1714  this is quicker
                path, opener = self.where, text[start]
                if frames:
                    frames[-1].since.append(text[done:start])
                frames.append(Frame(opener, path, offset + start))
                kind: EventKind = "start_object" if opener == "{" else "start_array"
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
        del self._parsed[:]
        rest = text[done:]
        self._tail = [rest] if rest else []
        self._string = None
        if '"' in rest and self.ended_at is None:
            self._open_string()
        return rest

    def _open_string(self) -> None:
        """Note a string that has begun since the last event."""
        text = "".join(self._tail)
        if quote := OPEN_STRING.match(text):
            start, begun = self._at - len(text) + quote.end() - 1, text[quote.end() :]
            self._string = OpenString(start, "", 0, escaped=False).and_then(begun)
            self._escape = unfinished_escape(begun)

    def _string_goes_on(self, text: str) -> bool:
        """Return whether the open string neither ends in this text nor breaks; note an unfinished escape."""
        found = STRING_GOES_ON.match(self._escape + text)
        if found is None:
            return False
        self._escape = found[1]
        return True

    def _is_key(self) -> bool:
        return (
            bool(self._frames) and self._frames[-1].opener == "{" and self._frames[-1].key is None
        )


def json_in(text: str, root: Root | None = None) -> str:
    """Return the JSON that a `JSONReader` finds in a whole text; without JSON, the unfenced text.

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
    try:  # usually the first bracket begins the JSON, and Python's own parser is fast
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
