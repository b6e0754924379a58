"""The tools that a client offers, and what its JSON means."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import copy

from streamval.backends.base import Backend
from streamval.errors import RequestError
from streamval.requirements.base import Requirement
from streamval.requirements.final import validate_output
from streamval.serve.schemas import json_schema
from streamval.structured.as_read import decoded
from streamval.structured.tools import Tool
from streamval.types.context import Context
from streamval.types.results import ValidationResult


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
