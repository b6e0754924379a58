"""Tests of `streamval.serve.budget`: a client's schema cannot stop the server."""

import asyncio
import json
import time

import pytest

from streamval.serve import budget
from streamval.serve.tools import complaint, validators_of
from tests.serve.test_tools import ASK, call, client_of
from tests.support.gateway import gateway
from tests.support.upstream import frame, upstream


def judged_call(schema, arguments):
    """What is said of a call's arguments, and the seconds of CPU that it took."""
    tool = {"type": "function", "function": {"name": "x", "parameters": schema}}
    before = time.process_time()
    said = complaint(validators_of([tool])["x"], json.dumps(arguments))
    return said, time.process_time() - before


UNEVALUATED = {"type": "object", "properties": {"a": {}}}
for _n in range(24):
    UNEVALUATED = {"allOf": [UNEVALUATED], "unevaluatedProperties": False}
CHOICES = {
    "$ref": "#/$defs/n",
    "$defs": {
        "n": {
            "oneOf": [
                {"type": "array", "items": {"$ref": "#/$defs/n"}},
                {"type": "array", "items": {"$ref": "#/$defs/n"}, "minItems": 1},
                {"type": "integer"},
            ]
        }
    },
}
deep = 1
for _n in range(30):
    deep = [deep]


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        (UNEVALUATED, {"a": 1}),
        ({"items": {"allOf": [{"type": "integer"}] * 3000}}, list(range(20_000))),
        ({"items": {"enum": [[n] for n in range(5_000)]}}, [[4_999]] * 20_000),
        (CHOICES, deep),
    ],
    ids=["unevaluatedProperties", "allOf", "enum", "oneOf"],
)
def test_judging_by_a_clients_schema_has_a_budget(schema, arguments):
    """The first took minutes, past run_seconds and SIGTERM."""
    said, seconds = judged_call(schema, arguments)
    assert said == "its schema cannot be used: TooMuchError"
    assert seconds < 30


@pytest.mark.parametrize(
    "schema",
    [
        {
            "type": "object",
            "$defs": {"B": {"examples": [1] * 12_000}},
            "properties": {"a": {"anyOf": [{"$ref": f"#{n:x}/$defs/B"} for n in range(1000)]}},
        },
        {
            "type": "object",
            "properties": {
                f"p{n}": {"pattern": f"(?:[a-z]{{1,50}}){{1,50}}{n}"} for n in range(850)
            },
        },
    ],
)
def test_a_schema_is_refused_before_it_costs_much(schema):
    before = time.process_time()
    with pytest.raises(ValueError, match=r"too large|more than 64 patterns"):
        budget.check_schema(schema)
    assert time.process_time() - before < budget.MAX_SECONDS


def test_different_items_are_told_apart_in_linear_time():
    items = [[n] for n in range(13_000)]
    assert judged_call({"uniqueItems": True}, items)[0] is None
    assert judged_call({"uniqueItems": True}, [*items, [5.0]])[0] is not None
    assert judged_call({"uniqueItems": True}, [1, True, "1", [1], {"a": 1}, None])[0] is None
    assert judged_call({"uniqueItems": True}, [{"a": 1, "b": 2}, {"b": 2, "a": 1}])[0] is not None


async def test_others_are_answered_while_a_call_is_judged(monkeypatch):
    """It is judged on a thread, within its budget."""
    monkeypatch.setattr(budget, "MAX_STEPS", 3_000_000)
    tool = {"type": "function", "function": {"name": "weather", "parameters": UNEVALUATED}}
    async with (
        upstream(call('{"a": 1}')) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        slow = asyncio.ensure_future(
            client.chat.completions.create(model="plain", messages=ASK, tools=[tool])
        )
        while not behind.requests:
            await asyncio.sleep(0)
        await client.models.list()
        assert not slow.done()
        assert (await slow).choices[0].finish_reason == "content_filter"


@pytest.mark.parametrize("size", [4, 1000])
async def test_an_answer_by_choices_that_contain_themselves_nests_no_deeper_than_can_be_judged(
    size,
):
    """Of 334 characters of schema and 248 of answer, pydantic tried each way through all levels."""
    both = [{"$ref": "#/$defs/n"}, {"$ref": "#/$defs/m"}]
    schema = {
        "$ref": "#/$defs/n",
        "$defs": {
            "n": {"type": "object", "properties": {"a": {"oneOf": [*both, {"type": "integer"}]}}},
            "m": {"type": "object", "properties": {"a": {"oneOf": [*both, {"type": "string"}]}}},
        },
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    for levels, reason in ((5, "stop"), (40, "content_filter")):
        answer = '{"a": ' * levels + "1" + "}" * levels
        pieces = [
            *(frame({"content": answer[n : n + size]}) for n in range(0, len(answer), size)),
            frame({}, "stop"),
        ]
        async with (
            upstream(pieces) as behind,
            gateway(behind.url) as serving,
            client_of(serving) as client,
        ):
            before = time.process_time()
            whole = await client.chat.completions.create(
                model="plain", messages=ASK, response_format=wanted
            )
        assert whole.choices[0].finish_reason == reason
        assert time.process_time() - before < 30
