"""The output becomes an instance of a type: judged while it is written."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from streamval.requirements.base import Requirement
from streamval.requirements.function import PASS, UNKNOWN
from streamval.structured.schema import Schema, SchemaWatch
from streamval.types.results import PartialValidationResult, ValidationResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streamval.backends.base import Backend
    from streamval.chunkers.json import JSONDelta
    from streamval.types.context import Context


class MatchesSchema(Requirement):
    """The output is JSON that pydantic makes an instance of a type of.

    Fails at the first value that can not become one: a wrong type, a broken constraint, a field
    that is not allowed, a string that none of the allowed words begins with, one item too many,
    a required field missing where an object ends, or a character that is no JSON. The reason names
    the path, the rule and the value.

    Unknown until all of it is there and right, so with ``hold=True`` nothing is delivered before.
    Takes chunks of any kind; with ``chunking=None`` it judges each delta. Text around the JSON, as
    a preamble or a code fence, is skipped.
    """

    judges = str

    verbatim = True
    reads_json = True

    def __init__(self, schema: Schema[Any], description: str, **options: Any) -> None:
        super().__init__(description, **{"check_only": True, **options})
        self.schema = schema
        self._watch: SchemaWatch | None = None

    def __copy__(self) -> MatchesSchema:
        twin: MatchesSchema = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._watch = copy(self._watch)
        return twin

    @property
    def resumable(self) -> bool:  # type: ignore[override]
        """Not where the value that failed had begun before the chunk: a prefix cannot take it back."""
        return self._watch is None or not self._watch.begun_before

    def stream_validate(
        self, chunk: str | JSONDelta, *, backend: Backend | None, ctx: Context | None
    ) -> PartialValidationResult:
        """Read on. A chunk that has been read as JSON already is not read again."""
        del backend, ctx
        if self._watch is None:
            self._watch = SchemaWatch(self.schema)
        text = chunk if isinstance(chunk, str) else chunk.separator + chunk.text
        reading = None if isinstance(chunk, str) else chunk.reading
        if reading is None or reading.root != self.schema.root:
            complaint = self._watch.feed(text)
        else:
            complaint = self._watch.take(text, reading)
        if complaint is not None:
            return PartialValidationResult("fail", reason=complaint)
        return PASS if self._watch.complete else UNKNOWN

    async def validate(
        self,
        backend: Backend | None,
        ctx: Context,
        *,
        format: type[Any] | None = None,
        model_options: Mapping[str, Any] | None = None,
    ) -> ValidationResult:
        """Let pydantic judge all of it, unless it has done so as the last bracket came."""
        del backend, format, model_options
        text = str(ctx.last_output() or "")
        if self._has_seen(text):
            return ValidationResult(True)
        complaint = self.schema.complaint(text)
        return ValidationResult(complaint is None, reason=complaint)

    def instance_in(self, text: str) -> Any:
        """The instance in a text, or `None`: the one that was made as the text came, if it was."""
        if self._watch is not None and self._has_seen(text):
            return self._watch.instance
        return self.schema.parse_or_none(text)

    def _has_seen(self, text: str) -> bool:
        """Whether the JSON in a text has been judged as a whole, and was right."""
        watch = self._watch
        return watch is not None and watch.complete and text.startswith(watch.text)


def matches(wanted: Any, description: str | None = None, **options: Any) -> MatchesSchema:
    """The output is JSON for a pydantic model, or any type that pydantic knows.

    Args:
        wanted: The type.
        description: What is required, in words.
        **options: As for `Requirement`.

    Raises:
        UsageError: If pydantic does not know the type.

    Example:
        >>> matches(list[int]).description
        'the output is JSON for list[int]'
    """
    schema: Schema[Any] = Schema(wanted)
    return MatchesSchema(schema, description or f"the output is JSON for {schema.name}", **options)


def valid_json(**options: Any) -> Requirement:
    """The output is JSON, whatever it says. Fails at the first character that is none.

    Args:
        **options: As for `Requirement`.

    Returns:
        The requirement.

    Example:
        >>> valid_json().description
        'the output is valid JSON'
    """
    return MatchesSchema(Schema(Any), "the output is valid JSON", **options)
