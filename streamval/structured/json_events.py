"""The results of reading JSON in pieces: events with paths and offsets, and open strings."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

Root: TypeAlias = Literal["object", "array"]
EventKind: TypeAlias = Literal["start_object", "start_array", "key", "value", "end"]

HEAD = 128
"""Characters of a string's beginning that are kept."""

_PLAIN_KEY = re.compile(r"[^\W\d]\w*")


class JSONEvent(NamedTuple):
    """Something that has just completed in a stream of JSON.

    Attributes:
        kind: An object or array begins, a key, a scalar value, or the end of an object or array.
        path: Where: ``$.people[3].name``.
        value: The scalar value, or the key; else `None`.
        start: Offset of its first character in the text; for an end, that of the whole object or
            array.
        end: Offset just past its last character.
    """

    kind: EventKind
    path: str
    value: Any
    start: int
    end: int


class OpenString(NamedTuple):
    """The beginning of a string that has not ended, as raw text.

    Attributes:
        start: Offset of its quotation mark.
        head: Its first characters, at most `HEAD`.
        size: The number of its characters so far.
        escaped: Whether it contains an escape, which may stand for any character.
    """

    start: int
    head: str
    size: int
    escaped: bool

    def and_then(self, text: str) -> OpenString:
        """Return the string extended by `text`."""
        head = self.head if len(self.head) >= HEAD else (self.head + text)[:HEAD]
        return OpenString(self.start, head, self.size + len(text), self.escaped or "\\" in text)


class OpenLiteral(NamedTuple):
    """The beginning of a number, or of `true`, `false` or `null`, that has not ended; or a comma at the end of the text.

    Attributes:
        start: Offset of its first character.
        head: Its characters so far.
    """

    start: int
    head: str


class Reading(NamedTuple):
    """The result of reading a piece of text.

    Attributes:
        events: The events in it, in order.
        begun: A scalar value that has begun and not ended, or `None`.
        error: What is wrong with the JSON, or `None`.
        root: The kind of JSON that the reader looks for: an object, an array, or (`None`) either.
        only_json: As given to the reader.
    """

    events: list[JSONEvent]
    begun: OpenString | OpenLiteral | None
    error: str | None
    root: Root | None = None
    only_json: bool = False


def path_of(around: str, key: str | int) -> str:
    """Return the path of the value under a key, or at an index.

    Example:
        >>> path_of("$", "name"), path_of("$.list", 3), path_of("$", "two words")
        ('$.name', '$.list[3]', "$['two words']")
    """
    return f"{around}[{key}]" if isinstance(key, int) else around + _step(key)


@lru_cache(1024)
def _step(key: str) -> str:
    """Return a field's part of a path: ``.name``, or brackets for a key that is not a word."""
    return f".{key}" if _PLAIN_KEY.fullmatch(key) else f"[{key!r}]"


@dataclass(slots=True)
class Frame:
    """An open object or array.

    Attributes:
        opener: Its bracket.
        path: Its path.
        start: Offset of its bracket.
        key: In an object, the key whose value is due.
        index: In an array, the index of the value that is due.
        has_value: Whether a value in it has completed.
        since: The raw text since its last completed value, without the text of an open child.
    """

    opener: str
    path: str
    start: int
    key: str | None = None
    index: int = 0
    has_value: bool = False
    since: list[str] = field(default_factory=list)

    def __copy__(self) -> Frame:
        return replace(self, since=list(self.since))

    def child(self) -> str:
        """Return the path of the value that is due."""
        if self.opener == "[":
            return f"{self.path}[{self.index}]"
        return self.path if self.key is None else path_of(self.path, self.key)

    def shortest_way(self) -> str:
        """Return the shortest text that puts a new parser into the same state for this object or array."""
        before = {"[": '""', "{": '"":""'}[self.opener] if self.has_value else ""
        return self.opener + before + "".join(self.since)
