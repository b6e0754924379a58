"""Tools: functions, pydantic models and OpenAI's dictionaries as names with a schema of their arguments."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict, create_model
from pydantic.errors import PydanticUserError

from streamval.errors import UsageError
from streamval.structured.json_schema.schema import schema_of
from streamval.structured.schema import Schema

ToolLike: TypeAlias = "Callable[..., Any] | type[BaseModel] | Mapping[str, Any] | Tool"


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a model may call.

    Attributes:
        name: Its name.
        schema: Judges its arguments; a string says why none can be judged, and refuses every call.
        written: The tool as OpenAI's chat completions write it.
    """

    name: str
    schema: Schema[Any] | str
    written: Mapping[str, Any]


def as_tools(given: Sequence[ToolLike] | None, *, assert_formats: bool = False) -> tuple[Tool, ...]:
    """Return tools.

    A tool whose schema cannot be used refuses its own calls only.

    Args:
        given: Functions (named and described by themselves, never called), pydantic models, or dictionaries
            of OpenAI's chat completions.
        assert_formats: Whether `format` in a dictionary's schema is an assertion.

    Raises:
        UsageError: If an item is none of them, or two have the same name.

    Example:
        >>> def weather(city: str, days: int = 1) -> str:
        ...     "Tell the weather."
        >>> (tool,) = as_tools([weather])
        >>> tool.name, tool.schema.complaint('{"days": 2}')
        ('weather', '$.city: Field required')
    """
    if given is None:
        return ()
    if isinstance(given, (str, Mapping)) or not isinstance(given, Sequence):
        raise UsageError(f"tools must be a list; write tools=[…], not {given!r:.100}")
    tools = tuple(_as_tool(at, one, assert_formats) for at, one in enumerate(given))
    names = [tool.name for tool in tools]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"two tools are called {twice!r}")
    return tools


def _as_tool(at: int, given: ToolLike, assert_formats: bool) -> Tool:
    if isinstance(given, Tool):
        return given
    if isinstance(given, Mapping):
        return _of_dictionary(at, given, assert_formats)
    if isinstance(given, type) and issubclass(given, BaseModel):
        return _of_model(given.__name__, inspect.getdoc(given), given)
    if inspect.isroutine(given):
        return _of_model(given.__name__, inspect.getdoc(given), _arguments_of(given))
    raise UsageError(
        f"tool {at} is {type(given).__name__}; give a function, a pydantic model, or a dictionary "
        '{"type": "function", "function": {"name": …, "parameters": …}}'
    )


def _of_dictionary(at: int, given: Mapping[str, Any], assert_formats: bool) -> Tool:
    kind, function = given.get("type", "function"), given.get("function")
    if kind != "function":
        raise UsageError(
            f"tool {at} is of type {kind!r:.60}, whose calls cannot be judged; only functions can"
        )
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(name, str) or not name:
        raise UsageError(
            f"tool {at} is invalid: it needs type, and function with name and parameters"
        )
    schema: Schema[Any] | str
    try:
        parameters = function.get("parameters")
        written = json.dumps({} if parameters is None else parameters)  # a copy that stays as it is
        schema = schema_of(json.loads(written), assert_formats=assert_formats)
    except (UsageError, ValueError, TypeError, RecursionError) as error:
        schema = f"its schema cannot be used: {str(error) or 'it is nested too deeply':.300}"
    return Tool(name, schema, given)


def _of_model(name: str, description: str | None, model: type[BaseModel]) -> Tool:
    function: dict[str, Any] = {"name": name}
    if description:
        function["description"] = description
    schema = schema_of(model)
    function["parameters"] = schema.json_schema
    return Tool(name, schema, {"type": "function", "function": function})


def _arguments_of(function: Callable[..., Any]) -> type[BaseModel]:
    """Return a model of a function's arguments.

    Raises:
        UsageError: If it has arguments that JSON cannot give, or types that pydantic does not know.
    """
    name = function.__name__
    fields: dict[str, Any] = {}
    takes_any = False
    try:
        parameters = inspect.signature(function, eval_str=True).parameters.values()
        for one in parameters:
            if one.kind is one.VAR_KEYWORD:
                takes_any = True
            elif one.kind in (one.VAR_POSITIONAL, one.POSITIONAL_ONLY):
                raise UsageError(
                    f"the tool {name} takes {one.name!r} by position, and a model gives names"
                )
            else:
                kind = Any if one.annotation is one.empty else one.annotation
                fields[one.name] = kind, ... if one.default is one.empty else one.default
        config = ConfigDict(extra="allow" if takes_any else "forbid")
        model: type[BaseModel] = create_model(name, __config__=config, **fields)
    except (NameError, PydanticUserError) as error:
        first = str(error).partition("\n")[0]
        raise UsageError(f"the arguments of the tool {name} have no schema: {first}") from None
    return model
