"""Tests of `streamval.serve.schemas`."""

import json
import threading

import pytest

from streamval.errors import RequestError
from streamval.serve import schemas
from streamval.serve.schemas import format_of
from streamval.structured.json_schema.schema import JSONSchema
from tests.support.gateway import ASK, FILE, client_of, gateway
from tests.support.upstream import upstream

CITY = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["name", "people"],
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "City", "schema": CITY}}


def pieces(text):
    return [text[at : at + 4] for at in range(0, len(text), 4)]


async def test_json_of_a_schema_is_judged_while_it_is_written():
    def script(body, before):
        assert body["response_format"] == FORMAT
        wrong = pieces('{"people": "many", "name": "Rome"')
        return [*wrong, "STALL"] if not before else pieces('{"people": 3, "name": "Rome"}')

    async with upstream(script) as behind, gateway(behind.url) as serving:
        async with client_of(serving) as client:
            whole = await client.chat.completions.create(
                model="whole",
                messages=[{"role": "user", "content": "A city."}],
                response_format=FORMAT,
            )
    assert json.loads(whole.choices[0].message.content) == {"people": 3, "name": "Rome"}
    assert behind.requests[0].gone.is_set()  # cut at the first wrong value


def test_what_is_no_format_is_refused():
    assert format_of({"type": "text"}) is None
    assert format_of({"type": "json_object"}).complaint("[]") is not None
    assert format_of({"type": "json_object"}).complaint('{"a": [1]}') is None
    for wrong in (
        7,
        {},
        {"type": "xml"},
        {"type": "json_schema"},
        {"type": "json_schema", "json_schema": {"schema": 7}},
    ):
        with pytest.raises(RequestError):
            format_of(wrong)


NEXT = {"anyOf": [{"$ref": "#"}, {"type": "null"}]}
LINKED = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "next": NEXT},
    "required": ["n", "next"],
    "additionalProperties": False,
}
BOTH = {
    "allOf": [
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]},
    ]
}
CODE = {"type": "object", "properties": {"code": {"pattern": "^(?=.*[0-9])(?!x)[a-z0-9]+$"}}}
TUPLE = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "array",
    "items": [{"type": "integer"}, {"type": "string"}],
    "additionalItems": False,
}


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        pytest.param(
            LINKED,
            '{"n": 1, "next": {"n": 2, "next": null}}',
            '{"n": 1, "next": {"n": "x"',
            id="$ref",
        ),
        pytest.param(BOTH, '{"a": 1, "b": "x"}', '{"a": 1, "b": 2', id="allOf"),
        pytest.param(CODE, '{"code": "ab1"}', '{"code": "abc"', id="lookahead"),
        pytest.param(TUPLE, '[1, "a"]', "[1, 2", id="tuple"),
        pytest.param({}, '{"x": [1]}', '{"x": [1}', id="anything"),
    ],
)
async def test_a_schema_is_judged_as_its_draft_says(schema, valid, invalid):
    asked = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}

    def script(body, before):
        return pieces(valid) if not before else [*pieces(invalid), ", ", "STALL"]

    async with (
        upstream(script) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        said = []
        for _ in range(2):
            whole = await client.chat.completions.create(
                model="plain", messages=ASK, response_format=asked
            )
            said.append((whole.choices[0].finish_reason, whole.choices[0].message.content))
        assert said[0] == ("stop", valid)
        assert said[1][0] == "content_filter"
        assert invalid.startswith(said[1][1])
        await behind.requests[1].gone.wait()


DAY = {"type": "object", "properties": {"day": {"type": "string", "format": "date"}}}


@pytest.mark.parametrize(("asserted", "reason"), [("true", "content_filter"), ("false", "stop")])
async def test_the_file_says_whether_formats_are_asserted(asserted, reason):
    file = FILE.replace(
        "plain: {{upstream: main}}", f"plain: {{{{upstream: main, assert_formats: {asserted}}}}}"
    )
    asked = {"type": "json_schema", "json_schema": {"name": "x", "schema": DAY}}
    async with (
        upstream(lambda body, before: pieces('{"day": "tomorrow"}')) as behind,
        gateway(behind.url, file=file) as serving,
        client_of(serving) as client,
    ):
        whole = await client.chat.completions.create(
            model="plain", messages=ASK, response_format=asked
        )
        assert whole.choices[0].finish_reason == reason


async def test_a_large_schema_is_prepared_on_a_thread_while_others_are_answered(monkeypatch):
    threads = []

    def prepared(*given, **options):
        threads.append(threading.current_thread())
        return JSONSchema(*given, **options)

    monkeypatch.setattr(schemas, "JSONSchema", prepared)
    large = {"type": "object", "properties": {f"key {n}": {"minimum": n} for n in range(3_000)}}
    asked = {"type": "json_schema", "json_schema": {"name": "x", "schema": large}}
    async with (
        upstream(lambda body, before: pieces('{"key 7": 8}')) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        whole = await client.chat.completions.create(
            model="plain", messages=ASK, response_format=asked
        )
    assert whole.choices[0].message.content == '{"key 7": 8}'
    assert threads
    assert threading.main_thread() not in threads
