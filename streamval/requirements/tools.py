"""`ToolCalls`: each call names one of the tools, and its arguments meet that tool's schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from streamval.chunkers.tool import ToolChunk
from streamval.requirements.chunk_rule import ChunkRule, failed
from streamval.structured.schema import Schema, SchemaWatch
from streamval.structured.tools import Tool
from streamval.types.results import PASS, UNKNOWN, PartialValidationResult


class ToolCalls(ChunkRule):
    """Requires that each call names one of the tools, and that its arguments are an object of the tool's schema.

    A pipeline with `tools` has it as its last requirement. It fails at the name, at the value from which no valid
    arguments can follow, or at the end of the call. A repeated key fails too, as readers of JSON do not agree
    which one counts.

    Example:
        >>> from streamval.chunkers.tool import ToolChunker
        >>> from streamval.structured.tools import as_tools
        >>> from streamval.types.deltas import ToolCallDelta
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
