"""Tests of `streamval.structured.json_schema.beginnings`."""

import pytest

from streamval.structured.json_events import OpenLiteral, OpenString
from streamval.structured.json_schema.beginnings import excluded, impossible
from streamval.structured.json_schema.compiler import Compiler


@pytest.mark.parametrize(
    ("schema", "begun", "why"),
    [
        ({"type": "string"}, "12", "a number is not of type string"),
        ({"type": "integer"}, "t", "a boolean is not of type integer"),
        ({"enum": [True, None]}, "f", "no allowed boolean begins with f"),
        ({"enum": [True, None]}, "tr", ""),
        ({"enum": [10, 20]}, "3", "no allowed number begins with 3"),
        ({"anyOf": [{"type": "string"}, {"const": 5}]}, "6", "no allowed number begins with 6"),
        ({"anyOf": [{"type": "string"}, {"const": 5}]}, "5", ""),
        ({"allOf": [{}, False]}, "5", "no value is allowed here"),
        ({"allOf": [{"$ref": "#"}], "maximum": 3}, "5", ""),  # 5e-1
    ],
)
def test_the_first_character_of_a_number_or_word_decides(schema, begun, why):
    assert impossible(Compiler(schema).root, OpenLiteral(0, begun), {}) == why


@pytest.mark.parametrize(
    ("schema", "begun", "why"),
    [
        ({"maxLength": 3}, "abcd", "the string has more than 3 characters"),
        ({"enum": ["red", "blue"]}, "ro", 'no allowed string begins with "ro'),
        ({"enum": ["red", "blue"]}, "re", ""),
        ({"enum": ["é"]}, "é", ""),
        ({"type": ["null", "object"]}, "", "a string is not of type null or object"),
    ],
)
def test_the_beginning_of_a_string_decides(schema, begun, why):
    root = Compiler(schema).root
    assert impossible(root, OpenString(0, begun, len(begun), escaped=False), {}) == why
    escaped = OpenString(0, begun + "\\u00e9", len(begun) + 6, escaped=True)
    assert impossible(root, escaped, {}) == (why if "type" in why else "")


def test_an_object_or_array_may_be_excluded_whatever_is_in_it():
    assert excluded(Compiler({"type": "string"}).root, "array") == "an array is not of type string"
    assert (
        excluded(Compiler({"enum": ["x"]}).root, "object")
        == "an object is none of the allowed values"
    )
    assert excluded(Compiler({"type": "array"}).root, "array") == ""
