"""Tests of `streamval.structured.json_schema.scalar`."""

import pytest

from streamval.structured.json_schema.compiler import Compiler
from streamval.structured.json_schema.scalar import any_of, nearest, one_of, scalar, why_not


def judged(schema, value, **options):
    known = {}
    root = Compiler(schema, **options).root
    return scalar(root, value, known), why_not(root, value, known)


@pytest.mark.parametrize(
    ("dialect", "schema", "value", "valid"),
    [
        ("http://json-schema.org/draft-04/schema#", {"minimum": 3, "exclusiveMinimum": True}, 3, False),
        ("http://json-schema.org/draft-04/schema#", {"minimum": 3, "exclusiveMinimum": False}, 3, True),
        ("http://json-schema.org/draft-04/schema#", {"const": 3}, 4, True),
        ("http://json-schema.org/draft-07/schema#", {"$ref": "#/definitions/a", "maximum": 1, "definitions": {"a": {}}}, 4, True),
        ("https://json-schema.org/draft/2020-12/schema", {"$ref": "#/$defs/a", "maximum": 1, "$defs": {"a": {}}}, 4, False),
        ("https://json-schema.org/draft/2020-12/schema", {"$ref": "#"}, 4, True),
        ("https://json-schema.org/draft/2020-12/schema", {"$ref": "#a", "$defs": {"x": {"$anchor": "a", "type": "null"}}}, 4, False),
    ],
)  # fmt: skip
def test_a_scalar_is_judged_by_the_draft_of_its_schema(dialect, schema, value, valid):
    assert judged({"$schema": dialect, **schema}, value)[0] is valid


def test_what_is_not_decided_here_is_said():
    assert judged({"$dynamicRef": "#"}, 1) == (None, "")
    assert judged({"allOf": [{"$dynamicRef": "#"}, {"type": "null"}]}, 1)[0] is False
    assert judged({"not": {"$dynamicRef": "#"}}, 1)[0] is None
    assert judged({"maximum": 1e400}, float("inf"))[0] is None


def test_groups():
    assert any_of([False, True, None]) is True
    assert any_of([False, None]) is None
    assert one_of([True, True, None]) is False
    assert one_of([True, None]) is None
    said = judged({"oneOf": [{"type": "integer"}, {"minimum": 1}]}, 3)
    assert said == (False, "3 meets 2 parts of oneOf, and must meet one")
    assert nearest([]) == "nothing is allowed here"
    assert nearest([lambda: "$.b[0]: c", lambda: "$: a"]) == "$.b[0]: c"
