"""The output becomes an instance of a type: judged while it is written."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from streamval.requirements.base import Requirement
from streamval.requirements.function import PASS, UNKNOWN
from streamval.results import PartialValidationResult, ValidationResult
from streamval.schema import Schema, SchemaWatch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streamval.backends.base import Backend
    from streamval.context import Context


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

    async def stream_validate(
        self, chunk: str, *, backend: Backend | None, ctx: Context | None
    ) -> PartialValidationResult:
        """Read on."""
        del backend, ctx
        if self._watch is None:
            self._watch = SchemaWatch(self.schema)
        complaint = self._watch.feed(chunk)
        if complaint is not None:
            return PartialValidationResult("fail", reason=complaint)
        return PASS if self._watch.complete else UNKNOWN

    async def validate(
        self,
        backend: Backend | None,
        ctx: Context,
        *,
        format: type[Any] | None = None,  # noqa: A002  the reference's name
        model_options: Mapping[str, Any] | None = None,
    ) -> ValidationResult:
        """Let pydantic judge all of it."""
        del backend, format, model_options
        complaint = self.schema.complaint(str(ctx.last_output() or ""))
        return ValidationResult(complaint is None, reason=complaint)


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

    Example:
        >>> valid_json().description
        'the output is valid JSON'
    """
    return MatchesSchema(Schema(Any), "the output is valid JSON", **options)
