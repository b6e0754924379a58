"""A type as a schema for a stream: the first value that makes an instance impossible, and why.

pydantic judges each value as it completes, by the type at its path. Only certain errors count:
where a type has validators of its own that may change a value before it is judged,
no value inside it is judged before the whole value is complete.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from io import SEEK_END, StringIO
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import SchemaError, to_json

from streamval.errors import UsageError
from streamval.structured.allowed import Allowed, ImpossibleError, JSONKind, first_error, name_of
from streamval.structured.json_events import (
    JSONEvent,
    OpenLiteral,
    OpenString,
    Reading,
    Root,
    path_of,
)
from streamval.structured.opening import unfenced
from streamval.structured.reader import JSONReader, json_in

T = TypeVar("T")

_SPACE = " \t\n\r"
_OPENINGS: dict[JSONKind, str] = {
    "object": "{",
    "array": "[",
    "string": '"',
    "other": "tfn-0123456789NI",  # pydantic reads NaN and Infinity
}


class Schema(Generic[T]):
    """A type that an output should become an instance of.

    Args:
        wanted: A pydantic model, or any type that pydantic knows.
        text_around: Whether text before and behind the JSON, such as a code fence, is skipped.

    Raises:
        UsageError: If pydantic does not know it.

    Example:
        >>> Schema(list[int], text_around=True).parse("Here they are: [1, 2]. Good luck!")
        [1, 2]
    """

    def __init__(self, wanted: type[T], *, text_around: bool = False) -> None:
        self.type = wanted
        self.text_around = text_around
        try:
            self.adapter: TypeAdapter[T] = TypeAdapter(wanted)
        except (PydanticUserError, SchemaError) as error:
            said = str(error).splitlines()[0]
            raise UsageError(f"pydantic cannot check the type {wanted!r}: {said}") from None
        self.place = Allowed.of(wanted)

    @cached_property
    def is_scalar(self) -> bool:
        """Whether it is neither an object nor an array: then all of the text is its JSON."""
        return not (self.place.takes("object") or self.place.takes("array"))

    @property
    def name(self) -> str:
        """The name of the type for messages."""
        return name_of(self.type)

    @cached_property
    def root(self) -> Root | None:
        """Whether it is an object or an array; `None` where it may be either, or a scalar."""
        takes_object, takes_array = self.place.takes("object"), self.place.takes("array")
        if takes_object == takes_array:
            return None
        return "object" if takes_object else "array"

    @cached_property
    def openings(self) -> str:
        """The characters with which its JSON may begin."""
        return "".join(chars for kind, chars in _OPENINGS.items() if self.place.takes(kind))

    def no_place_for(self, kind: Root) -> str:
        """Return why the JSON can be no object, or no array."""
        return f"it should be {self.name}, not an {kind}"

    def json_in(self, text: str) -> str:
        """Return the JSON in a text: all of it, unless text around it is skipped."""
        if not self.text_around:
            return text
        return unfenced(text) if self.is_scalar else json_in(text, self.root)

    def parse(self, text: str) -> T:
        """Return the instance in a text.

        Raises:
            ValidationError: If there is none (pydantic's error).
        """
        return self.adapter.validate_json(self.json_in(text))

    def parse_or_none(self, text: str) -> T | None:
        """Return the instance in a text, or `None`."""
        try:
            return self.parse(text)
        except ValidationError:
            return None

    @cached_property
    def json_schema(self) -> dict[str, Any]:
        """The JSON schema to ask a backend for."""
        return self.adapter.json_schema()

    def complaint(self, text: str) -> str | None:
        """Return why a text contains no instance, or `None`."""
        try:
            self.parse(text)
        except ValidationError as error:
            return first_error(error, "$")
        return None

    def watch(self) -> SchemaWatch:
        """Return a watch over JSON that is being written."""
        return SchemaWatch(self)


@dataclass(slots=True)
class _Open:
    """An object or array that is being written.

    Attributes:
        place: The values that are allowed there; `None` if all are.
        path: Its path.
        start: Offset of its bracket.
        key: The key, or index, whose value is due.
    """

    place: Allowed | None
    path: str
    start: int
    key: str | int

    def child(self) -> Allowed | None:
        return None if self.place is None else self.place.child(self.key)


class SchemaWatch:
    """Watches JSON as it is written, and reports when it can no longer become an instance of a type.

    A plain object. Cost: text length × nesting depth, because each object is judged again when it
    ends. Keeps all of the text.

    Args:
        schema: The type.

    Attributes:
        instance: The instance, once the JSON is complete and valid; else `None`.
        complete: Whether the JSON is complete and valid.
        begun_before: Whether the value that was complained about began in an earlier piece.

    Example:
        >>> watch = SchemaWatch(Schema(dict[str, int]))
        >>> watch.feed('{"a": 1, ')
        >>> watch.feed('"b": "many')
        >>> watch.feed('", ')
        '$.b: Input should be a valid integer, unable to parse string as an integer, not "many"'
    """

    def __init__(self, schema: Schema[Any]) -> None:
        self.instance: Any = None
        self.complete = False
        self.begun_before = False
        self._schema = schema
        self._reader: JSONReader | None = None
        self._text = StringIO()
        self._size = 0
        self._open: list[_Open] = []
        self._is_copy = False
        self._has_begun = False
        self._ended = 0

    def feed(self, text: str) -> str | None:
        """Take the next piece of text; return the complaint about it, or `None`."""
        if self._is_copy:
            self._catch_up()
        if self._schema.is_scalar:
            return self._feed_scalar(text)
        if self._reader is None:
            self._reader = JSONReader(
                root=self._schema.root, only_json=not self._schema.text_around
            )
        return self._judge_all(text, self._reader.read(text))

    def take(self, text: str, reading: Reading) -> str | None:
        """Take a text that has been read already; return the complaint about it, or `None`."""
        if self._schema.is_scalar:
            return self.feed(text)
        if self._is_copy:
            self._part_from_original()
        return self._judge_all(text, reading)

    def _feed_scalar(self, text: str) -> str | None:
        """Judge how a scalar begins; the rest is judged at its end, as a number has no end of its own."""
        return self._text_before(text)

    @property
    def text(self) -> str:
        """The whole text so far."""
        return self._text.getvalue()[: self._size]

    def __copy__(self) -> SchemaWatch:
        """Return an independent copy.

        It shares the text with the original until it is fed more text: copies are made for each
        chunk, and few of them are used.
        """
        twin: SchemaWatch = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._open = list(map(copy, self._open))
        twin._is_copy = True
        return twin

    def _part_from_original(self) -> None:
        self._is_copy = False
        self._text = StringIO(self.text)
        self._text.seek(0, SEEK_END)

    def _catch_up(self) -> None:
        """Read the text again, because the copy shares the original's reader."""
        self._is_copy = self._has_begun = self.complete = False
        self._ended = 0
        known = self.text
        self._text, self._size, self._open, self._reader = StringIO(), 0, [], None
        self.feed(known)

    def _judge_all(self, text: str, reading: Reading) -> str | None:
        before = self._size
        self._text.write(text)
        self._size += len(text)
        if not self._has_begun and (why := self._text_before(text)) is not None:
            return why
        for event in reading.events:
            try:
                complaint = self._judge(event)
            except ImpossibleError as error:
                complaint = f"{event.path}: {error}"
            if complaint is not None:
                self.begun_before = event.start < before
                return complaint
        if reading.error is not None and not self.complete:
            self.begun_before = True
            return f"no valid JSON at {reading.error}"
        if reading.begun is not None:
            self.begun_before = reading.begun.start < before
            return self._begun_complaint(reading.begun)
        if self.complete and not self._schema.text_around:
            behind = text[max(self._ended - before, 0) :]
            return "$: there is text after the JSON" if behind.strip(_SPACE) else None
        return None

    def _text_before(self, text: str) -> str | None:
        if self._has_begun or self._schema.text_around or not (first := text.lstrip(_SPACE)[:1]):
            return None
        self._has_begun = True
        if first in self._schema.openings:
            return None
        if first in "{[":
            return f"$: {self._schema.no_place_for('object' if first == '{' else 'array')}"
        return f"$: it begins with {first!r} and not with the JSON: there is text before it"

    def _judge(self, event: JSONEvent) -> str | None:
        if event.kind == "key":
            self._open[-1].key = event.value
            self._due()
            return None
        if event.kind == "end":
            return self._judge_end(event)
        place = self._due()
        if event.kind == "value":
            self._next()
            return None if place is None else place.complaint(to_json(event.value), event.path)
        first: str | int
        kind: JSONKind
        kind, first = ("object", "") if event.kind == "start_object" else ("array", 0)
        if place is not None and not place.takes(kind):
            return f"{event.path}: it should be {place.name}, not an {kind}"
        self._open.append(_Open(place, event.path, event.start, first))
        return None

    def _judge_end(self, event: JSONEvent) -> str | None:
        """Judge an object or array as a whole, for missing and conflicting values."""
        ended = self._open.pop()
        self._next()
        if self._open and ended.place is None:
            return None
        self._text.seek(ended.start)
        text = self._text.read(event.end - ended.start)
        self._text.seek(0, SEEK_END)
        if self._open:
            assert ended.place is not None
            return ended.place.complaint(text, event.path)
        try:
            self.instance = self._schema.adapter.validate_json(text)
        except ValidationError as error:
            return first_error(error, "$")
        self.complete, self._ended = True, event.end
        return None

    def _due(self) -> Allowed | None:
        """Return the place of the next value."""
        return self._open[-1].child() if self._open else self._schema.place

    def _next(self) -> None:
        if self._open and isinstance(key := self._open[-1].key, int):
            self._open[-1].key = key + 1

    def _begun_complaint(self, begun: OpenString | OpenLiteral) -> str | None:
        """Return the complaint about a scalar that has only begun, or `None`."""
        if isinstance(begun, OpenLiteral):
            return None
        try:
            place = self._due()
            complaint = None if place is None else place.string_complaint(begun)
        except ImpossibleError as error:
            complaint = str(error)
        if complaint is None:
            return None
        if not self._open:
            return complaint
        around = self._open[-1]
        return f"{path_of(around.path, around.key)}: {complaint}"
