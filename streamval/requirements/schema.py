"""Requires JSON for a type, and calls of tools for their schemas; judges them while they are written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from streamval.backends.base import Backend
from streamval.chunkers.json import JSONDelta
from streamval.chunkers.tool import ToolChunk
from streamval.requirements.base import Requirement
from streamval.requirements.chunk_rule import ChunkRule, failed
from streamval.structured.json_schema.schema import schema_of
from streamval.structured.schema import Schema, SchemaWatch
from streamval.structured.tools import Tool
from streamval.types.context import Context
from streamval.types.results import PASS, UNKNOWN, PartialValidationResult, ValidationResult


class MatchesSchema(ChunkRule):
    """Requires JSON that pydantic can turn into an instance of a type.

    Fails at the first value from which no instance can follow: a wrong type, a broken constraint, a
    field that is not allowed, a string whose beginning matches no allowed string, one item too
    many, a required field missing where an object ends, or invalid JSON. The reason names the path,
    the rule and the value.

    Chunks are unknown until the JSON is complete and valid, so with ``hold=True`` nothing is
    delivered before. Takes chunks of any kind; with ``chunking=None`` it judges each delta. Text
    around the JSON, such as a preamble or a code fence, is a failure, unless `text_around` was asked for.
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
        """False if the failed value began in an earlier chunk, which a prefix would keep."""
        return self._watch is None or not self._watch.begun_before

    def check(self, chunk: str | JSONDelta) -> PartialValidationResult:
        """Read the next chunk. A `JSONDelta` has been parsed already."""
        if self._watch is None:
            self._watch = self.schema.watch()
        if isinstance(chunk, str):
            complaint = self._watch.feed(chunk)
        elif (
            (read := chunk.reading) is None
            or read.root != self.schema.root
            or read.only_json == self.schema.text_around
        ):
            complaint = self._watch.feed(chunk.separator + chunk.text)
        else:
            complaint = self._watch.take(chunk.separator + chunk.text, read)
        if complaint is not None:
            return failed(complaint)
        return PASS if self._watch.complete else UNKNOWN

    def check_whole(self, text: str) -> PartialValidationResult:
        """Let pydantic judge the text, unless it did so at the last bracket."""
        complaint = None if self._has_seen(text) else self.schema.complaint(text)
        return PASS if complaint is None else failed(complaint)

    async def validate(
        self, backend: Backend | None, ctx: Context, **options: Any
    ) -> ValidationResult:
        """Judge the whole output, by `check_whole`; of JSON that was cut off, say so."""
        result = await super().validate(backend, ctx, **options)
        output = ctx.last_output()
        cut = None if output is None else output.generation.cut_off
        if result or cut is None:
            return result
        return ValidationResult(False, reason=f"the JSON is not complete: {cut}")

    def instance_in(self, text: str) -> Any:
        """Return the instance in a text, or `None`. The instance made from the stream is used, if any."""
        if self._watch is not None and self._has_seen(text):
            return self._watch.instance
        return self.schema.parse_or_none(text)

    def _has_seen(self, text: str) -> bool:
        """Return whether the JSON in a text has been judged as a whole, and is valid."""
        watch = self._watch
        return watch is not None and watch.complete and text.startswith(watch.text)


def matches(
    wanted: Any,
    description: str | None = None,
    *,
    assert_formats: bool = False,
    text_around: bool = False,
    **options: Any,
) -> MatchesSchema:
    """Require JSON for a pydantic model, any type that pydantic knows, or a JSON Schema.

    Args:
        wanted: The type, or a JSON Schema as a mapping or a boolean.
        description: What is required, in words; by default made of the type's name.
        assert_formats: Whether a JSON Schema's `format` is an assertion.
        text_around: Whether text before and behind the JSON is skipped, such as a code fence.

    Raises:
        UsageError: If pydantic does not know the type, or the JSON Schema cannot be used.

    Example:
        >>> matches(list[int]).description
        'the output is JSON for list[int]'
    """
    schema = schema_of(wanted, assert_formats=assert_formats, text_around=text_around)
    return MatchesSchema(schema, description or f"the output is JSON for {schema.name}", **options)


def valid_json(**options: Any) -> Requirement:
    """Require JSON, of any content. Fails at the first character that is not JSON.

    Example:
        >>> valid_json().description
        'the output is valid JSON'
    """
    return MatchesSchema(Schema(Any), "the output is valid JSON", **options)


class ToolCalls(ChunkRule):
    """Requires that each call names one of the tools, and that its arguments are an object of the tool's schema.

    A pipeline with `tools` has it as its last requirement. It fails at the name, at the value from which no valid
    arguments can follow, or at the end of the call. A repeated key fails too, as readers of JSON do not agree
    which one counts.

    Example:
        >>> from streamval.chunkers import ToolChunker
        >>> from streamval.structured.tools import as_tools
        >>> from streamval.types import ToolCallDelta
        >>> def weather(city: str) -> str: ...
        >>> rule = ToolCalls(as_tools([weather]))
        >>> for chunk in ToolChunker().feed(ToolCallDelta(0, "c1", "weather", '{"town": ')):
        ...     print(rule.check(chunk).success)
        pass
        fail
    """

    judges = str
    verbatim = True
    reads_tools = True
    listens = ("tool",)

    def __init__(self, tools: Sequence[Tool]) -> None:
        super().__init__("tools are called as they were declared", check_only=True)
        self._tools: Mapping[str, Tool] = {tool.name: tool for tool in tools}
        self._watches: Mapping[int, SchemaWatch] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tools."""
        return tuple(self._tools)

    @property
    def chunks_decide(self) -> bool:
        """Whether the chunks decide: always, as no answer has to call a tool."""
        return True

    def check(self, chunk: ToolChunk) -> PartialValidationResult:
        """Judge the next piece of a call."""
        tool = self._tools.get(chunk.name)
        if tool is None:
            known = (
                f"the tools are {', '.join(self._tools)}"
                if self._tools
                else "no tools were offered"
            )
            return failed(f"it calls {chunk.name!r:.100}: there is no such tool; {known}")
        if isinstance(tool.schema, str):
            return failed(f"a call of {tool.name}: {tool.schema}")
        if chunk.part == "name":
            return PASS
        why = self._complaint(chunk, tool.schema)
        if why is not None:
            return failed(f"a call of {tool.name}: {why}")
        return PASS if chunk.part == "end" else UNKNOWN

    def _complaint(self, chunk: ToolChunk, schema: Schema[Any]) -> str | None:
        watch = self._watches.get(chunk.call)
        if chunk.part == "arguments":
            if watch is None:
                watch = schema.watch()
                # A new mapping, as copies of this requirement share the old one.
                self._watches = {**self._watches, chunk.call: watch}
            if schema.is_scalar or chunk.reading is None:
                return None  # judged at the end
            return watch.take(chunk.text, chunk.reading)
        assert chunk.whole is not None
        raw = chunk.whole.raw
        if not isinstance(chunk.whole.arguments, dict):
            return "its arguments are not a JSON object"
        if key := _repeated_key(raw):
            return f"its arguments have the key {key!r:.100} twice"
        return None if watch is not None and watch.complete else schema.complaint(raw)

    def __copy__(self) -> ToolCalls:
        twin: ToolCalls = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._watches = {call: copy(watch) for call, watch in self._watches.items()}
        return twin


class _RepeatedError(ValueError):
    """An object has a key twice."""


def _repeated_key(raw: str) -> str | None:
    """Return a key that an object in a JSON text has twice, if there is one."""

    def once(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RepeatedError(key)
            seen.add(key)

    try:
        json.loads(raw, object_pairs_hook=once)
    except _RepeatedError as repeated:
        return str(repeated) or " "
    return None
