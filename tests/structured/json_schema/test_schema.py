"""Tests of `streamval.structured.json_schema.schema`."""

import json
import random
from copy import copy
from pathlib import Path

import pytest

import streamval as sv
from streamval.errors import UsageError
from streamval.structured.json_schema.schema import JSONSchema, schema_of
from streamval.structured.schema import Schema
from tests.fuzz.schemas import Maker, too_early
from tests.fuzz.typed import sliced
from tests.support.oracle import failed_after

PEOPLE = {
    "type": "object",
    "properties": {
        "people": {"type": "integer", "maximum": 10},
        "name": {"enum": ["Rome", "Bonn"]},
    },
    "required": ["people"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("text", "reason", "read"),
    [
        ('{"people": 17, "x": 1}', "$.people: 17 is more than the maximum of 10", 15),
        ('{"people": "3"}', "$.people: a string is not of type integer", 12),
        ('{"name": "London", "people": 1}', '$.name: no allowed string begins with "Lo', 12),
        ('{"name": "Rome"}', "$.people: it is missing", 16),
        (
            'Sure: {"people": 3}',
            "$: it begins with 'S' and not with the JSON: there is text before it",
            3,
        ),
        ('{"people": 3} or {"people": 4}', "$: there is text after the JSON", 15),
    ],
)
async def test_a_pipeline_takes_a_json_schema_as_its_format(text, reason, read):
    pipeline = sv.Pipeline(sv.ScriptedBackend(text, token_size=3), format=PEOPLE)
    result = await pipeline.run("go")
    assert [failure.reason for failure in result.failures] == [reason]
    assert len(result.attempts[0].text) == read
    result = await sv.Pipeline(sv.ScriptedBackend(' {"people": 3}\n'), format=PEOPLE).run("go")
    assert result.success
    assert result.parsed == {"people": 3}


async def test_a_repair_goes_on_within_the_json():
    said = ['{"name": "Rome", "people": 17}', "7}"]
    backend = sv.ScriptedBackend(said, token_size=1, supports_prefix=True)
    pipeline = sv.Pipeline(backend, format=PEOPLE, retry=sv.Repair(), chunking="word")
    result = await pipeline.run("go")
    assert result.success, result.failures
    assert result.parsed["people"] in (7, 17 // 10 * 10 + 7)


def test_text_around_it_is_skipped_where_that_is_wanted():
    text = 'Sure:\n```json\n{"people": 3}\n```'
    assert JSONSchema(PEOPLE, text_around=True).complaint(text) is None
    assert JSONSchema(PEOPLE).complaint(text) is not None


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer"}, ["1", "1.0", "-3"], ['"1"', "true", "1.5"]),
        ({}, ["1", "{}", '"x"'], ["", "nonsense"]),
        (True, ["1"], ["{"]),
        (False, [], ["1", "{}"]),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}}, ["null"], ["1"]),
        ({"properties": {"a": {"$ref": "#"}}, "additionalProperties": False}, ['{"a": {}}'], ['{"a": {"b": 1}}']),
        ({"prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False}, ['["a", 1]'], ['["a", 1, 2]', "[1]"]),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}], "additionalItems": False},
            ['["a"]'],
            ['["a", 1]', "[1]"],
        ),
        ({"pattern": "^(?=.*\\d)[a-z\\d]+$"}, ['"a1"'], ['"aa"']),
        ({"not": {"required": ["a"]}}, ['{"b": 1}'], ['{"a": 1}']),
        ({"allOf": [{"required": ["a"]}, {"required": ["b"]}]}, ['{"a": 1, "b": 2}'], ['{"a": 1}']),
        ({"$dynamicRef": "#x", "$defs": {"x": {"$dynamicAnchor": "x", "type": "null"}}}, ["null"], ["1", "[]"]),
    ],
)  # fmt: skip
def test_it_means_what_its_specification_says(schema, good, bad):
    judge = JSONSchema(schema)
    assert [judge.complaint(text) for text in good] == [None] * len(good)
    assert all(judge.complaint(text) is not None for text in bad)


def test_formats_are_annotations_unless_they_are_asserted():
    schema = {"type": "object", "properties": {"day": {"format": "date"}}}
    assert JSONSchema(schema).complaint('{"day": "tomorrow"}') is None
    said = JSONSchema(schema, assert_formats=True).complaint('{"day": "tomorrow"}')
    assert said == '$.day: "tomorrow" is not a valid date'


@pytest.mark.parametrize(
    ("named", "is_tuple"),
    [
        ("http://json-schema.org/draft-07/schema#", True),
        ("https://json-schema.org/draft-07/schema", True),
        ("https://json-schema.org/draft/2020-12/schema", False),
        ("http://json-schema.org/schema#", False),
    ],
)
def test_the_draft_is_the_one_that_is_named(named, is_tuple):
    schema = {"$schema": named, "items": [{"type": "null"}]}
    if is_tuple:
        assert JSONSchema(schema).complaint("[1]") is not None
    else:
        with pytest.raises(UsageError, match="not a JSON Schema"):
            JSONSchema(schema)
        assert JSONSchema({"$schema": named, "prefixItems": [{"type": "null"}]}).complaint("[1]")


def test_formats_of_newer_drafts_are_known_to_schemas_of_older_ones():
    schema = {"$schema": "http://json-schema.org/draft-06/schema#", "format": "uuid"}
    judge = JSONSchema({**schema, "items": schema}, assert_formats=True)
    assert judge.complaint('["x"]') == '$[0]: "x" is not a valid uuid'
    assert JSONSchema(schema, assert_formats=True).complaint('"x"') is not None
    assert judge.complaint('["123e4567-e89b-12d3-a456-426614174000"]') is None


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "strin"}, "this is not a JSON Schema"),
        ({"$ref": "http://127.0.0.1:1/x"}, "refers to 'http://127.0.0.1:1/x'"),
        ({"$ref": "#/$defs/nowhere"}, "nowhere"),
        ({"$ref": "#anchor"}, "refers to 'anchor'"),
        ({"$dynamicRef": "http://127.0.0.1:1/y"}, "refers to 'http://127.0.0.1:1/y'"),
        ({"$schema": "http://127.0.0.1:1/z"}, "names the dialect 'http://127.0.0.1:1/z'"),
        ({"$schema": "file:///etc/passwd"}, "names the dialect 'file:///etc/passwd'"),
        ({"pattern": "("}, "this is not a JSON Schema"),
        ({"a": "x" * 5_000_000}, "longer than"),
        ({"a": {1, 2}}, "this is not a JSON Schema"),
    ],
)
def test_what_cannot_be_used_is_refused_at_once(schema, said):
    with pytest.raises(UsageError, match=said):
        JSONSchema(schema)


def test_one_that_is_nested_too_deeply_is_refused():
    schema = {}
    for _ in range(3000):
        schema = {"not": schema}
    with pytest.raises(UsageError, match="nested too deeply"):
        JSONSchema(schema)


UNEVALUATED = {"type": "object", "properties": {"a": {}}}
for _n in range(24):
    UNEVALUATED = {"allOf": [UNEVALUATED], "unevaluatedProperties": False}
BRANCH = {"type": "array", "items": {"$ref": "#"}}
CHOICES = {"anyOf": [BRANCH, {**BRANCH, "minItems": 1}, {"type": "integer"}]}
TWICE = {
    "$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)},
    "$ref": "#/$defs/d0",
}
TWICE["$defs"]["d40"] = {"type": "integer"}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (UNEVALUATED, '{"a": 1}', '{"a": 1, "b": 2}'),
        (CHOICES, "[" * 100 + "1" + "]" * 100, "[" * 100 + '"x"' + "]" * 100),
        (TWICE, "1", '"x"'),
        ({"items": {"enum": [[n] for n in range(5_000)]}}, json.dumps([[4_999]] * 2_000), "[[5000]]"),
    ],
    ids=["unevaluatedProperties", "anyOf", "allOf", "enum"],
)  # fmt: skip
def test_a_schema_that_multiplies_is_judged_all_the_same(schema, good, bad):
    """A validator asks 2 ** 24 to 2 ** 100 questions by them."""
    judge = JSONSchema(schema)
    assert judge.complaint(good) is None
    assert judge.complaint(bad) is not None
    assert judge.parse(good) == json.loads(good)


def test_copies_of_a_watch_go_on_by_themselves():
    watch = JSONSchema(PEOPLE).watch()
    watch.feed('{"name": "Rome", ')
    twin = copy(watch)
    assert watch.feed('"people": "x"') is not None
    assert twin.feed('"people": 3}') is None
    assert twin.complete
    assert twin.instance == {"name": "Rome", "people": 3}


def test_a_schema_is_one_of_two_kinds():
    assert isinstance(schema_of({"type": "null"}), JSONSchema)
    assert type(schema_of(dict[str, int])) is Schema
    made = JSONSchema(True)
    assert schema_of(made) is made
    assert (made.root, made.is_scalar) == (None, False)
    assert JSONSchema({"type": "array"}).root == "array"
    assert JSONSchema({"type": "string"}).is_scalar
    assert JSONSchema({"title": "City"}).name == "City"


def fed(schema, text, size=1):
    """The complaint of a watch, or whether the text is complete and valid."""
    watch = JSONSchema(schema).watch()
    for at in range(0, len(text), size):
        if (why := watch.feed(text[at : at + size])) is not None:
            return why
    return watch.complete


@pytest.mark.parametrize(
    "part",
    [
        *({keyword: wrong} for keyword in ("properties", "dependencies", "patternProperties") for wrong in ([], 5)),
        *({keyword: "q"} for keyword in ("minItems", "minLength", "minimum", "maxProperties")),
        *(5, [], None, "a", {"properties": {"n": 5}}, {"$id": 5}, {"maxLength": 1e400}),
    ],
    ids=str,
)  # fmt: skip
def test_what_a_reference_leads_to_is_a_schema_wherever_it_stands(part):
    """These were an AttributeError, a TypeError in the midst of a document, or taken for `{}`."""
    with pytest.raises(UsageError, match=r"not a schema|not a JSON Schema"):
        JSONSchema({"$ref": "#/x", "x": part})


def circles(reference, **root):
    branch = {"type": "array", "items": reference}
    return {**root, "anyOf": [branch, {**branch, "minItems": 1}, {"type": "integer"}]}


LEVELS = {"l24": {"type": "string"}, "m24": {"type": "string"}}
for _n in range(24):
    _next = [{"$ref": f"#/$defs/{name}{_n + 1}"} for name in "lm"]
    LEVELS |= {f"l{_n}": {"anyOf": _next}, f"m{_n}": {"anyOf": _next}}
MUTUAL = {
    "a": {"anyOf": [{"$ref": "#/$defs/b"}, {"type": "string"}]},
    "b": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "string"}]},
}


@pytest.mark.parametrize(
    ("schema", "text", "said"),
    [
        (circles({"$recursiveRef": "#"}, **{"$schema": "https://json-schema.org/draft/2019-09/schema"}), "[" * 24 + '""' + "]" * 24, "too much work"),
        (circles({"$dynamicRef": "#n"}, **{"$dynamicAnchor": "n"}), "[" * 24 + '""' + "]" * 24, "too much work"),
        ({"items": {"$ref": "#/$defs/a"}, "$defs": MUTUAL}, '["abc"]', True),
        ({"items": {"$ref": "#/$defs/l0"}, "$defs": LEVELS}, '["ab"]', True),
        ({"type": "array"}, "[" + " " * 1_000 + "1]", True),
        ({"type": "array"}, "[" + " " * 200_000 + "1]", "more than 1,024 spaces in a row"),
        ({"contains": {}, "maxContains": 10**6}, "[" + "1," * 60_000 + "1]", True),
        ({"anyOf": [{"required": [f"x{n}"]} for n in range(1000)]}, '{"a":1,"a":1,"b":"' + "x" * 30_000 + '"}', "does not meet"),
        ({"pattern": "(?=.*[0-9])(?=.*[A-Z])z"}, '"' + "a" * 60_000 + '"', False),
        ({"type": "object"}, '{"n":' + "1" * 5_000 + "}", "a number has thousands of digits"),
        ({"type": "object"}, '\u00a0{"a":1}', "there is text before it"),
        ({"type": "object"}, '{"a":1}\u00a0', "there is text after"),
        ({"type": "object"}, ' \n{"a":1}\t', True),
        ({"type": "array"}, '["\\ud800"]', "half of a surrogate pair"),
        ({"uniqueItems": True}, '["\\ud83d\\ude00", "\\ud83d\\ude01"]', True),
        ({"properties": {"n": {"const": 10**25}}}, '{"n":1e25}', True),
        ({"properties": {"n": {"const": 1e25}}}, '{"n":10000000000000000000000000}', True),
        ({"not": {"const": [1], "unevaluatedItems": False}}, "[1]", True),
        ({"$ref": "urn:x", "$defs": {"x": {"$id": "urn:x", "$schema": "http://json-schema.org/draft-07/schema#", "prefixItems": [False]}}}, "[1]", True),
        ({"properties": {"a": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "null"}}}, '{"a":1', "not of type null"),
        ({"$schema": "https://json-schema.org/draft/2019-09/schema", "$ref": "https://json-schema.org/draft/2019-09/schema"}, '{"$defs": {"a": {"type": "null"}}}', True),
        ({"allOf": [{"unevaluatedItems": True}], **circles({"$ref": "#"}), "unevaluatedProperties": False}, '{"a": 1}', "not of type"),
    ],
)  # fmt: skip
@pytest.mark.timeout(60)
def test_what_an_attacker_found(schema, text, said):
    """Gigabytes, seconds for kilobytes, a RecursionError, and wrong verdicts: by its time limit, and by what it says."""
    found = fed(schema, text)
    assert found is said if isinstance(said, bool) else said in str(found)


@pytest.mark.timeout(120)
def test_what_stops_the_validator_or_fills_the_memory_is_refused():
    chain = {f"l{n}": {"$ref": f"#/$defs/l{n + 1}"} for n in range(60_000)} | {"l60000": {}}
    for schema, said in (
        ({"items": {"$ref": "#/$defs/l0"}, "$defs": chain}, "more than 100 others"),
        ({"allOf": [{"minimum": n} for n in range(130_000)]}, "more than 100,000 parts"),
        ({"allOf": [{"pattern": f"\\S{{200}}{n}"} for n in range(300)]}, "within 65,536 bytes"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=said):
            JSONSchema(schema)
    anchors = {f"a{n}": {"$anchor": f"a{n}", "type": "integer"} for n in range(4_000)}
    schema = {"$defs": anchors, "properties": {name: {"$ref": f"#{name}"} for name in anchors}}
    assert JSONSchema(schema).complaint('{"a1": "x"}') is not None


SAMPLE = Path(__file__).parents[2] / "benchmarks" / "jsonschemabench_sample.jsonl"


@pytest.mark.parametrize("line", SAMPLE.read_text().splitlines(), ids=lambda line: line[10:50])
def test_schemas_of_jsonschemabench_are_judged_as_labelled(line):
    """Their origin and licence are in `tests/benchmarks/schema.py`."""
    case, rng = json.loads(line), random.Random(7)
    judge = JSONSchema(case["schema"], assert_formats=True)
    for test in case["tests"]:
        text = json.dumps(test["data"])
        assert (judge.complaint(text) is None) == test["valid"], text
        failed = failed_after(judge, sliced(text, rng))
        assert failed is None or not test["valid"], text
        assert failed is not None or test["valid"] or judge.is_scalar, text


@pytest.mark.parametrize("seed", range(40))
def test_nothing_fails_while_a_continuation_could_be_valid(seed):
    rng = random.Random(seed)
    judge = JSONSchema(Maker(rng, small=True).root())
    assert list(too_early(judge, rng, count=100, size=2)) == []
