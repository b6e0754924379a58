"""Tests of `streamval.structured.tools`."""

from typing import Literal

import pytest
from pydantic import BaseModel

from streamval.errors import UsageError
from streamval.structured.tools import as_tools


def weather(city: str, unit: Literal["C", "F"] = "C", *, days: int = 1):
    """Tell the weather."""
    raise AssertionError("a tool is never called")


class Weather(BaseModel):
    """Tell the weather."""

    city: str
    days: int = 1


DICTIONARY = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


@pytest.mark.parametrize("given", [weather, Weather, DICTIONARY])
def test_a_tool_has_a_name_and_a_schema(given):
    (tool,) = as_tools([given])
    assert tool.name.lower() == tool.written["function"]["name"].lower() == "weather"
    assert tool.schema.complaint('{"city": "Rome"}') is None
    assert "$.city" in tool.schema.complaint('{"city": 5}')
    assert as_tools([tool]) == (tool,)


def test_a_function_is_described_by_itself():
    (tool,) = as_tools([weather])
    function = tool.written["function"]
    assert function["description"] == "Tell the weather."
    assert list(function["parameters"]["properties"]) == ["city", "unit", "days"]
    assert tool.schema.complaint('{"city": "Rome", "more": 1}') is not None
    assert "'C' or 'F'" in tool.schema.complaint('{"city": "Rome", "unit": "K"}')
    (any_names,) = as_tools([lambda **options: None])
    assert any_names.schema.complaint('{"a": 1}') is None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([5], "tool 0 is int"),
        ([{"type": "web_search"}], "of type 'web_search', whose calls cannot be judged"),
        ([{"type": "function"}], "tool 0 is invalid"),
        ([weather, weather], "two tools are called 'weather'"),
        ([lambda *names: None], "takes 'names' by position"),
        (weather, "tools must be a list"),
        ("weather", "tools must be a list"),
    ],
)
def test_what_is_no_tool_is_refused(given, says):
    with pytest.raises(UsageError, match=says):
        as_tools(given)


def test_a_schema_that_cannot_be_used_refuses_its_own_tool():
    odd = {"type": "function", "function": {"name": "odd", "parameters": {"type": "nothing"}}}
    tool, other = as_tools([odd, weather])
    assert tool.schema.startswith("its schema cannot be used: ")
    assert not isinstance(other.schema, str)
