"""A type as a schema for a stream: what can not become an instance of it any more, and why.

pydantic judges each value as it completes, against the type that belongs at its path. Only what is
certain counts: where a type has validators of its own that may change a value before it is judged,
nothing inside of it is judged before all of it is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from io import SEEK_END, StringIO
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import to_json

from streamval.errors import UsageError
from streamval.json_stream import JSONReader
from streamval.places import ImpossibleError, Place, complaint_of, name_of

if TYPE_CHECKING:
    from streamval.json_stream import JSONEvent, Root
    from streamval.places import Kind

T = TypeVar("T")


class Schema(Generic[T]):
    """A type that an output should become an instance of.

    Args:
        wanted: A pydantic model, or any type that pydantic knows.

    Raises:
        UsageError: If pydantic does not know it.

    Example:
        >>> Schema(list[int]).parse("Here they are: [1, 2]. Good luck!")
        [1, 2]
    """

    def __init__(self, wanted: type[T]) -> None:
        self.type = wanted
        try:
            self.adapter: TypeAdapter[T] = TypeAdapter(wanted)
        except PydanticUserError as error:
            message = f"{wanted!r} is no type that pydantic can check: {error.message}"
            raise UsageError(message) from None
        self.place = Place.of(wanted)

    @property
    def is_scalar(self) -> bool:
        """Whether it is neither an object nor an array: then all of the text is its JSON."""
        return not (self.place.takes("object") or self.place.takes("array"))

    @property
    def name(self) -> str:
        """What messages call it."""
        return name_of(self.type)

    @cached_property
    def root(self) -> Root | None:
        """Whether it is an object or an array; `None` where it may be either, or a scalar."""
        takes_object, takes_array = self.place.takes("object"), self.place.takes("array")
        if takes_object == takes_array:
            return None
        return "object" if takes_object else "array"

    def parse(self, text: str) -> T:
        """The instance in a text, whatever stands around it.

        Raises:
            ValidationError: If there is none (pydantic's).
        """
        if self.is_scalar:
            return self.adapter.validate_json(text.strip())
        reader = JSONReader(root=self.root)
        reader.feed(text)
        return self.adapter.validate_json(text[reader.began_at : reader.ended_at].strip())

    def parse_or_none(self, text: str) -> T | None:
        """The instance in a text, or `None`."""
        try:
            return self.parse(text)
        except ValidationError:
            return None

    @cached_property
    def json_schema(self) -> dict[str, Any]:
        """The JSON schema to ask a backend for."""
        return self.adapter.json_schema()

    def complaint(self, text: str) -> str | None:
        """Why there is no instance in a text; `None` where there is one."""
        try:
            self.parse(text)
        except ValidationError as error:
            return complaint_of(error, "$")
        return None


@dataclass(slots=True)
class _Open:
    """An object or array that is being written."""

    place: Place | None
    start: int
    key: str | int

    def child(self) -> Place | None:
        return None if self.place is None else self.place.child(self.key)


class SchemaWatch:
    """Watches JSON being written, and says when it can not become what is wanted any more.

    A plain object. Cost is linear in the text, times the depth of objects within objects, each of
    which is judged once more as a whole when it ends. Keeps the text.

    Args:
        schema: What is wanted.

    Attributes:
        complete: Whether all of the JSON is there, and right.
        begun_before: Of a complaint, whether what it is about had begun before the last piece.

    Example:
        >>> watch = SchemaWatch(Schema(dict[str, int]))
        >>> watch.feed('{"a": 1, ')
        >>> watch.feed('"b": "many')
        >>> watch.feed('", ')
        '$.b: Input should be a valid integer, unable to parse string as an integer, not "many"'
    """

    def __init__(self, schema: Schema[Any]) -> None:
        self.complete = False
        self.begun_before = False
        self._schema = schema
        self._reader = JSONReader(root=schema.root)
        self._text = StringIO()
        self._size = 0
        self._open: list[_Open] = []
        self._behind = False

    def feed(self, text: str) -> str | None:
        """Take the next piece of text; return what is wrong with it, or `None`."""
        if self._schema.is_scalar:
            return None
        if self._behind:
            self._catch_up()
        before = self._size
        self._text.write(text)
        self._size += len(text)
        for event in self._reader.feed(text):
            try:
                complaint = self._judge(event)
            except ImpossibleError as error:
                complaint = f"{event.path}: {error}"
            if complaint is not None:
                self.begun_before = event.start < before
                return complaint
        if self._reader.error is not None:
            self.begun_before = True
            return f"no valid JSON at {self._reader.error}"
        return self._string_complaint(before)

    def __copy__(self) -> SchemaWatch:
        twin = SchemaWatch(self._schema)
        # It shares the text, which only grows, and reads it again if it is ever fed: copies are
        # made for each chunk, and few of them are used.
        twin._text, twin._size, twin._behind = self._text, self._size, True
        twin.complete = self.complete
        return twin

    def _catch_up(self) -> None:
        self._behind = False
        known = self._text.getvalue()[: self._size]
        self._text, self._size = StringIO(), 0
        self.feed(known)

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
        kind: Kind
        kind, first = ("object", "") if event.kind == "start_object" else ("array", 0)
        if place is not None and not place.takes(kind):
            return f"{event.path}: it should be {place.name}, not an {kind}"
        self._open.append(_Open(place, event.start, first))
        return None

    def _judge_end(self, event: JSONEvent) -> str | None:
        """Judge an object or array as a whole: what is missing, and what does not fit together."""
        ended = self._open.pop()
        self._next()
        self._text.seek(ended.start)
        text = self._text.read(event.end - ended.start)
        self._text.seek(0, SEEK_END)
        if self._open:
            return None if ended.place is None else ended.place.complaint(text, event.path)
        complaint = self._schema.complaint(text)
        self.complete = complaint is None
        return complaint

    def _due(self) -> Place | None:
        """What may stand where the next value will."""
        return self._open[-1].child() if self._open else self._schema.place

    def _next(self) -> None:
        if self._open and isinstance(self._open[-1].key, int):
            self._open[-1].key += 1

    def _string_complaint(self, before: int) -> str | None:
        """What is wrong with a string that has only begun."""
        begun = self._reader.open_string
        if begun is None:
            return None
        self.begun_before = begun.start < before
        try:
            place = self._due()
        except ImpossibleError as error:
            return f"{self._reader.where}: {error}"
        complaint = None if place is None else place.string_complaint(begun)
        return None if complaint is None else f"{self._reader.where}: {complaint}"
