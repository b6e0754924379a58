"""Tests of `streamval.structured.json_schema.judge`: beside the validator, over random schemas and documents."""

import json
from itertools import pairwise
from unittest.mock import patch

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamval.structured.json_schema import compiler
from streamval.structured.json_schema.compiler import Compiler
from streamval.structured.json_schema.judge import SchemaJudge
from streamval.structured.reader import JSONReader

KEYS = st.sampled_from(["a", "b", "c"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 5),
    st.sampled_from([0.5, 1.0, 2.5]),
    st.sampled_from(["", "x", "xy", "abc", "é"]),
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]
PLAIN = st.one_of(
    st.booleans(),
    st.builds(lambda one: {"type": one}, st.sampled_from(TYPES)),
    st.builds(
        lambda some: {"type": some},
        st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True),
    ),
    st.builds(lambda values: {"enum": values}, st.lists(DOCUMENTS, min_size=1, max_size=3)),
    st.builds(lambda value: {"const": value}, DOCUMENTS),
    st.builds(
        lambda low, high: {"minimum": low, "exclusiveMaximum": high},
        st.integers(-2, 2),
        st.integers(0, 4),
    ),
    st.builds(
        lambda low, high: {"minLength": low, "maxLength": high},
        st.integers(0, 2),
        st.integers(0, 3),
    ),
    st.builds(lambda of: {"multipleOf": of}, st.sampled_from([1, 2, 0.5])),
    st.builds(lambda pattern: {"pattern": pattern}, st.sampled_from(["^x", "y$", "^$", "b"])),
    st.builds(
        lambda low, high: {"minItems": low, "maxItems": high}, st.integers(0, 2), st.integers(1, 3)
    ),
    st.builds(
        lambda low, high: {"minProperties": low, "maxProperties": high},
        st.integers(0, 2),
        st.integers(1, 3),
    ),
    st.builds(lambda keys: {"required": keys}, st.lists(KEYS, max_size=2, unique=True)),
    st.just({"uniqueItems": True}),
    st.just({"$ref": "#/$defs/tree"}),
)


def _composed(inner):
    some = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        *(
            st.builds(lambda parts, k=k: {k: parts}, some)
            for k in ("allOf", "anyOf", "oneOf", "prefixItems")
        ),
        *(
            st.builds(lambda part, k=k: {k: part}, inner)
            for k in ("not", "items", "contains", "propertyNames")
        ),
        *(
            st.builds(lambda part, k=k: {k: part}, inner)
            for k in ("additionalProperties", "unevaluatedProperties", "unevaluatedItems")
        ),
        st.builds(lambda parts: {"properties": parts}, st.dictionaries(KEYS, inner, max_size=3)),
        st.builds(lambda part: {"patternProperties": {"^[ab]": part}}, inner),
        st.builds(lambda key, part: {"dependentSchemas": {key: part}}, KEYS, inner),
        st.builds(lambda key, needed: {"dependentRequired": {key: [needed]}}, KEYS, KEYS),
        st.builds(lambda a, b, c: {"if": a, "then": b, "else": c}, inner, inner, inner),
        st.builds(
            lambda part, low, high: {"contains": part, "minContains": low, "maxContains": high},
            inner,
            st.integers(0, 2),
            st.integers(1, 2),
        ),
        st.builds(
            lambda one, other: {
                **(one if isinstance(one, dict) else {}),
                **(other if isinstance(other, dict) else {}),
            },
            inner,
            inner,
        ),
    )


SCHEMAS = st.recursive(PLAIN, _composed, max_leaves=8)
TREE = {"type": ["object", "integer"], "properties": {"a": {"$ref": "#/$defs/tree"}}}


def whole(schema):
    return {"$defs": {"tree": TREE}, "allOf": [schema]}


def judged(schema, text, cuts=()):
    """The judge, and after how many characters it failed, if it did."""
    judge, reader = SchemaJudge(Compiler(schema).root), JSONReader(only_json=True)
    edges = [0, *sorted(at for at in cuts if at < len(text)), len(text)]
    for start, end in pairwise(edges):
        for event in reader.feed(text[start:end]):
            if judge.take(event) is not None:
                return judge, end
        begun = reader.begun
        if begun and judge.begun(begun) is not None:
            return judge, end
    return judge, None


@given(
    SCHEMAS,
    st.one_of(st.lists(DOCUMENTS, max_size=4), st.dictionaries(KEYS, DOCUMENTS, max_size=3)),
    st.sets(st.integers(0, 60)),
    st.sampled_from([1, compiler.MANY]),
)
@settings(max_examples=1500, deadline=None)
def test_its_verdict_is_the_validators_and_no_valid_document_fails(schema, document, cuts, many):
    wanted, text = whole(schema), json.dumps(document)
    valid = jsonschema_rs.validator_for(wanted).is_valid(document)
    with patch.object(compiler, "MANY", many):
        judge, failed_after = judged(wanted, text, cuts)
    if valid:
        assert judge.complaint is None
        assert judge.verdict in (True, None)
    else:
        assert failed_after is not None or judge.verdict is None
    assert judge.verdict is not None or failed_after is not None


@pytest.mark.parametrize(
    ("schema", "text", "read", "said"),
    [
        ({"properties": {"a": {"type": "integer"}}}, '{"a": "many", "b": 1}', '{"a": "', "$.a: a string is not of type integer"),
        ({"properties": {"a": {"maximum": 10}}}, '{"a": 17, "b": 1}', '{"a": 17,', "$.a: 17 is more than the maximum of 10"),
        ({"additionalProperties": False}, '{"a": 17}', '{"a"', "$.a: the key 'a' is not allowed"),
        ({"properties": {"a": {"enum": ["red", "blue"]}}}, '{"a": "rose"}', '{"a": "ro', '$.a: no allowed string begins with "ro'),
        ({"items": {"anyOf": [{"type": "null"}, {"type": "array"}]}}, '[null, "x"]', '[null, "', "$[1]: a string is not of type array"),
        ({"maxItems": 1}, "[1, 2, 3]", "[1,", "$: there are more than 1 items"),
        ({"maxProperties": 1}, '{"a": 1, "b": 2}', '{"a": 1, "b"', "$.b: there are more than 1 keys"),
        ({"uniqueItems": True}, "[[1], [1], 3]", "[[1], [1]", "$[1]: the item [1] occurs twice"),
        ({"required": ["b"]}, '{"a": 1}', '{"a": 1}', "$.b: it is missing"),
        ({"properties": {"a": {"maxLength": 3}}}, '{"a": "abcdef"}', '{"a": "abcd', "$.a: the string has more than 3 characters"),
        ({"if": {"required": ["a"]}, "else": {"required": ["b"]}}, '{"c": 1}', '{"c": 1}', "$.b: it is missing"),
        ({"propertyNames": {"maxLength": 2}}, '{"abc": 1}', '{"abc"', '$.abc: as a key, "abc" has more than 2 characters'),
        ({"dependentSchemas": {"a": {"properties": {"b": {"type": "null"}}}}}, '{"b": 1, "a": 2, "c": 3}', '{"b": 1, "a"', "$.b: a number is not of type null"),
        ({"prefixItems": [{"type": "string"}], "items": False}, '["a", 5]', '["a",', "$[1]: no value is allowed here"),
        ({"properties": {"a": True}, "unevaluatedProperties": False}, '{"a": 1, "b": 2}', '{"a": 1, "b": 2}', "$.b: the key 'b' is not allowed"),
    ],
)  # fmt: skip
def test_it_fails_as_early_as_is_certain_and_says_why(schema, text, read, said):
    judge, failed_after = judged(schema, text, range(len(text)))
    assert judge.complaint == said
    assert text[:failed_after] == read


def test_choices_that_contain_themselves_are_judged_in_linear_time():
    branch = {"type": "array", "items": {"$ref": "#"}}
    schema = {"anyOf": [branch, {**branch, "minItems": 1}, {"type": "integer"}]}
    deep = "[" * 190 + "1" + "]" * 190  # each level asks two branches: 2 ** 190, if each asked anew
    judge, _ = judged(schema, deep)
    assert judge.verdict is True
    judge, failed_after = judged(schema, deep.replace("1", '"x"'), range(400))
    assert failed_after == 191


def test_a_key_that_stands_twice_leaves_its_object_to_the_end():
    schema = {"properties": {"a": {"type": "integer"}}, "not": {"required": ["b"]}}
    judge, failed_after = judged(schema, '{"a": 1, "a": "x"}')
    assert failed_after is None
    assert judge.verdict is None


def test_more_questions_than_a_document_may_ask_are_left_to_the_end():
    schema = {"items": {"allOf": [{"minimum": -n} for n in range(3000)]}}
    judge, failed_after = judged(schema, json.dumps([*range(2000), "x", -5000]))
    assert failed_after is None
    assert judge.verdict is None
