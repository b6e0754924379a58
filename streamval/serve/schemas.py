"""`response_format` and the tools of a request as JSON Schemas: so that JSON is judged while it is written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import copy
from functools import lru_cache

from streamval.backends.base import Backend
from streamval.errors import RequestError, UsageError
from streamval.requirements.base import Requirement
from streamval.requirements.final import validate_output
from streamval.structured.as_read import decoded
from streamval.structured.json_schema.schema import JSONSchema
from streamval.structured.tools import Tool
from streamval.types.context import Context
from streamval.types.results import ValidationResult


def format_of(response_format: object, *, assert_formats: bool = True) -> JSONSchema | None:
    """Return the schema that a request's `response_format` asks for.

    Args:
        response_format: As clients send it.
        assert_formats: Whether a schema's `format` is an assertion.

    Returns:
        The schema of ``json_schema``; for ``json_object``, that of any object; `None` for text.

    Raises:
        RequestError: If it is none, or the schema cannot be judged.

    Example:
        >>> schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        >>> wanted = format_of({"type": "json_schema", "json_schema": {"name": "N", "schema": schema}})
        >>> wanted.complaint('{"n": "3"}')
        '$.n: "3" is not of type integer'
    """
    if response_format is None:
        return None
    kind = response_format.get("type") if isinstance(response_format, dict) else None
    if kind == "text":
        return None
    if kind == "json_object":
        written = '{"type": "object"}'
    elif kind == "json_schema":
        try:
            written = json.dumps(response_format["json_schema"]["schema"])  # type: ignore[index]
        except (KeyError, TypeError, ValueError, RecursionError):
            raise RequestError(
                "response_format needs json_schema with a schema", param="response_format"
            ) from None
    else:
        raise RequestError(
            "response_format must be of type text, json_object or json_schema",
            param="response_format",
        )
    schema = json_schema(written, assert_formats)
    if isinstance(schema, str):
        message = f"the schema of response_format cannot be used: {schema}"
        raise RequestError(message[:500], param="response_format")
    return schema


SMALL_SCHEMA = 16 * 1024
"""Characters of a schema up to which many are kept: one of 100,000 parts takes 170 MB."""


def json_schema(written: str, assert_formats: bool) -> JSONSchema | str:
    """Return a schema, or why it cannot be used; made once, as clients send the same again and again."""
    return (_small if len(written) <= SMALL_SCHEMA else _large)(written, assert_formats)


def _made(written: str, assert_formats: bool) -> JSONSchema | str:
    try:
        return JSONSchema(json.loads(written), assert_formats=assert_formats)
    except (UsageError, ValueError, RecursionError) as error:
        return str(error) or "it is nested too deeply"


_small, _large = lru_cache(maxsize=64)(_made), lru_cache(maxsize=4)(_made)


def tools_of(tools: object, *, assert_formats: bool = True) -> tuple[Tool, ...]:
    """Return the tools of a request. Their schemas are kept, as clients send the same again and again.

    Raises:
        RequestError: If the tools are no list of functions.
    """
    if not isinstance(tools, list):
        raise RequestError("tools must be a list of functions", param="tools")
    offered = []
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
        if isinstance(schema, str):
            schema = f"its schema cannot be used: {schema:.300}"
        offered.append(Tool(name, schema, tool))
    return tuple(offered)


def as_tools(functions: object) -> object:
    """Return the functions of an older request as tools.

    Example:
        >>> as_tools([{"name": "now"}]), as_tools(None)
        ([{'type': 'function', 'function': {'name': 'now'}}], [])
    """
    if isinstance(functions, list):
        return [{"type": "function", "function": one} for one in functions]
    return functions or []


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
