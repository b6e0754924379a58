"""Tests of `streamval.structured.json_schema.cost`."""

import pytest

from streamval.structured.json_schema.compiler import Compiler
from streamval.structured.json_schema.cost import branching
from streamval.structured.json_schema.schema import JSONSchema

BRANCH = {"type": "array", "items": {"$ref": "#"}}
UNEVALUATED = {"properties": {"a": {}}}
for _n in range(24):
    UNEVALUATED = {"allOf": [UNEVALUATED], "unevaluatedProperties": False}
TWICE = {
    "$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)},
    "$ref": "#/$defs/d0",
}
TWICE["$defs"]["d40"] = {"type": "integer"}


@pytest.mark.parametrize(
    ("schema", "is_long"),
    [
        (True, False),
        ({"properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}}, False),
        ({"anyOf": [BRANCH, {"type": "integer"}]}, False),
        ({"anyOf": [BRANCH, {**BRANCH, "minItems": 1}]}, True),
        ({"oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}], "$defs": {"a": BRANCH}}, True),
        (UNEVALUATED, True),
        (TWICE, True),
        ({"items": {"enum": [[n] for n in range(5000)]}}, True),
        ({"enum": [f"value {n}" for n in range(5000)]}, False),
        ({"items": {"allOf": [{"minimum": -n} for n in range(3000)]}}, True),
    ],
)
def test_what_multiplies_takes_long(schema, is_long):
    assert (branching(Compiler(schema).root) > 1) == is_long


@pytest.mark.timeout(120)
def test_a_large_schema_is_looked_through_in_linear_time():
    """By its time limit: references lead through 10,000 parts, which a walk from each part would walk again."""
    refs = [{"$ref": f"#/$defs/d{n}"} for n in range(10_000)]
    chain = {f"d{n}": {"items": ref} for n, ref in enumerate(refs[1:])}
    schema = {
        "$defs": {**chain, "d9999": {}},
        "properties": {f"k{n}": ref for n, ref in enumerate(refs)},
    }
    assert branching(Compiler(schema).root) == 1
    assert JSONSchema(schema).complaint('{"k5": [1]}') is None
    assert branching(Compiler({**schema, "anyOf": refs}).root) > 1
