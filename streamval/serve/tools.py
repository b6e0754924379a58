"""Tool calls, judged before a client can act on them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from streamval.aio.tasks import in_thread
from streamval.backends.base import Backend
from streamval.errors import RequestError
from streamval.requirements.base import Requirement
from streamval.requirements.final import validate_output
from streamval.serve.schemas import json_schema
from streamval.serve.upstream import Relay
from streamval.structured.as_read import decoded
from streamval.structured.json_schema.schema import JSONSchema
from streamval.types.context import Context
from streamval.types.results import ValidationResult
from streamval.wire.completions import no_number


def schemas_of(tools: object, *, assert_formats: bool = True) -> dict[str, JSONSchema | str]:
    """Return the schema of each tool's arguments by the tool's name; why, where it cannot be used.

    One schema that cannot be used refuses its own calls only.

    Raises:
        RequestError: If the tools are no list of functions.
    """
    if not isinstance(tools, list):
        raise RequestError("tools must be a list of functions", param="tools")
    schemas: dict[str, JSONSchema | str] = {}
    for at, tool in enumerate(tools):
        try:
            function = tool["function"]
            name, parameters = str(function["name"]), function.get("parameters")
        except (TypeError, KeyError, AttributeError):
            raise RequestError(
                f"tool {at} is invalid: it needs type, and function with name and parameters",
                param=f"tools[{at}]",
            ) from None
        try:
            written = json.dumps({} if parameters is None else parameters)
            schema = json_schema(written, assert_formats)
        except (ValueError, RecursionError):
            schema = "it is nested too deeply"
        is_usable = isinstance(schema, JSONSchema)
        schemas[name] = schema if is_usable else f"its schema cannot be used: {schema:.300}"
    return schemas


def valid_tool_calls(
    relay: Relay,
    schemas: Mapping[str, JSONSchema | str],
    requirements: Sequence[Requirement],
    judge: Backend,
) -> Requirement:
    """Require that each tool call names a tool, has arguments of its schema, and meets the other requirements.

    Tool calls are not sent before this has passed. An answer without any passes.

    Args:
        relay: Has the calls of the last attempt.
        schemas: As `schemas_of` returns them.
        requirements: The other requirements; each judges the arguments of each call as one text.
        judge: The backend of requirements that ask a model.
    """

    async def judged(ctx: Context) -> ValidationResult:
        for call in relay.tool_calls:
            function = call["function"]
            name, arguments = function["name"], function["arguments"]
            # On a thread: the arguments may be long, and other requests go on.
            why = await in_thread(complaint, schemas.get(name), arguments)
            why = why or await _unmet(arguments, requirements, judge, ctx)
            if why is not None:
                return ValidationResult(False, reason=f"a call of {name!r}: {why}")
        return ValidationResult(True)

    return Requirement("tool calls are valid", judged)


def complaint(schema: JSONSchema | str | None, arguments: str) -> str | None:
    """Return the complaint about the arguments of a tool call; `None` if they are valid.

    Args:
        schema: The tool's, or why it cannot be used; `None` where there is no such tool.
        arguments: JSON, as the model wrote it.
    """
    if schema is None:
        return "there is no such tool"
    if isinstance(schema, str):
        return schema
    try:
        json.loads(arguments, object_pairs_hook=_once, parse_constant=no_number)
    except _RepeatedError as repeated:
        return f"its arguments have the key {repeated} twice"
    except (ValueError, RecursionError):
        return "its arguments are no JSON"
    why = schema.complaint(arguments)
    return None if why is None else f"its arguments: {why}"


def meant(requirements: Sequence[Requirement], judge: Backend) -> Requirement:
    """Require that decoded JSON meets the other requirements too: an escape may hide a word.

    Args:
        requirements: The other requirements.
        judge: The backend of requirements that ask a model.
    """

    async def judged(ctx: Context) -> ValidationResult:
        written = str(ctx.last_output() or "")
        if "\\" not in written:  # there is nothing to decode
            return ValidationResult(True)
        why = await _unmet(written, requirements, judge, ctx)
        return ValidationResult(why is None, reason=why)

    return Requirement("the decoded JSON meets the rules", judged)


class _RepeatedError(ValueError):
    """An object has a key twice: its readers do not agree which one counts."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RepeatedError(repr(key[:100]))
            seen.add(key)
    return made


async def _unmet(
    written: str, requirements: Sequence[Requirement], judge: Backend, ctx: Context
) -> str | None:
    """Return the first requirement that a JSON text does not meet, and why."""
    try:
        text = decoded(written)
    except RecursionError:
        return "it is nested too deeply to be judged"
    for requirement in requirements:
        result = await validate_output(copy(requirement), judge, ctx.with_output(text))
        if not result:
            return f"{requirement.name}: {result.reason or result.error or 'not met'}"
    return None
