"""Tests of `streamval.serve.schemas`: a tool call is judged before anybody could act on it."""

import json
import re
import select
import socket
import time

import httpx
import openai
import pytest

from streamval.chunkers.tool import ToolChunker
from streamval.errors import RequestError
from streamval.requirements.schema import ToolCalls
from streamval.serve.completions import SMALL_BODY
from streamval.serve.exchange import REFUSAL
from streamval.serve.schemas import tools_of
from streamval.types import ToolCallDelta
from tests.support.gateway import gateway
from tests.support.upstream import frame, upstream

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "pattern": "^[A-Z]"}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA, "strict": True}}
ASK = [{"role": "user", "content": "What is the weather in Rome?"}]


def call(arguments, name="weather"):
    """A tool call in pieces, as models send them."""
    middle = len(arguments) // 2
    pieces = [
        {
            "index": 0,
            "id": "call_1",
            "type": "function",
            "function": {"name": name, "arguments": ""},
        },
        {"index": 0, "function": {"arguments": arguments[:middle]}},
        {"index": 0, "function": {"arguments": arguments[middle:]}},
    ]
    return [*(frame({"tool_calls": [piece]}) for piece in pieces), frame({}, "tool_calls")]


def complaint(tool, arguments):
    """Why a call is refused, if it is."""
    rule, chunker = ToolCalls([tool]), ToolChunker()
    chunks = chunker.feed(ToolCallDelta(0, "c1", tool.name, arguments)) + chunker.flush()
    verdicts = map(rule.check, chunks)
    return next((verdict.reason for verdict in verdicts if verdict.success == "fail"), None)


def client_of(serving):
    return openai.AsyncOpenAI(base_url=f"{serving.url}/v1", api_key="x", max_retries=0)


async def answered(model, script, **options):
    """What a client gets, streamed and not, and how often the upstream was asked."""
    async with (
        upstream(script) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        whole = await client.chat.completions.create(
            model=model, messages=ASK, tools=[TOOL], **options
        )
        asked = len(behind.requests)
        behind.requests.clear()
        calls, reason, refusal = [], None, None
        stream = await client.chat.completions.create(
            model=model, messages=ASK, tools=[TOOL], stream=True, **options
        )
        async for chunk in stream:
            choice = chunk.choices[0]
            calls += choice.delta.tool_calls or []
            reason = choice.finish_reason or reason
            refusal = choice.delta.refusal or refusal
        return whole.choices[0], (calls, reason, refusal), asked


async def test_a_valid_call_comes_whole_in_one_frame():
    arguments = json.dumps({"city": "Rome", "days": 3})
    whole, (calls, reason, _), asked = await answered("careful", call(arguments))
    assert (whole.finish_reason, reason, asked) == ("tool_calls", "tool_calls", 1)
    assert len(calls) == 1
    for one in (whole.message.tool_calls[0], calls[0]):
        assert (one.function.name, one.function.arguments) == ("weather", arguments)
        assert re.fullmatch("[0-9a-f]{9}", one.id)  # ours: nobody has judged the other one


async def test_calls_that_all_have_index_0_are_told_apart_by_their_names_and_ids():
    def fragment(call_id, arguments, **function):
        piece = {"index": 0, "id": call_id, "function": {"arguments": arguments, **function}}
        return frame({"tool_calls": [piece]})

    script = [
        fragment("a", '{"city":', name="weather"),
        fragment("a", ' "Rome"}'),
        fragment("b", '{"city": "Oslo"', name="weather"),
        fragment("of each piece", "}"),
        frame({"tool_calls": [{"index": None, "function": {"arguments": " "}}]}),
        frame({}, "tool_calls"),
    ]
    whole, (calls, _, _), _ = await answered("careful", script)
    said = ['{"city": "Rome"}', '{"city": "Oslo"}']
    assert [one.function.arguments for one in whole.message.tool_calls] == said
    assert [(one.index, one.function.arguments) for one in calls] == [*enumerate(said)]
    assert len({one.id for one in calls}) == 2


async def test_an_id_may_come_after_its_name():
    piece = {"index": 0, "function": {"name": "weather", "arguments": '{"city":'}}
    later = {"index": 0, "id": "late", "function": {"name": "", "arguments": ' "Rome"}'}}
    script = [
        frame({"tool_calls": [piece]}),
        frame({"tool_calls": [later]}),
        frame({}, "tool_calls"),
    ]
    whole, _, _ = await answered("careful", script)
    assert [one.function.arguments for one in whole.message.tool_calls] == ['{"city": "Rome"}']


@pytest.mark.parametrize(
    "script",
    [
        call('{"city": 7}'),
        call('{"city": "rome"}'),
        call('{"days": 3}'),
        call('{"city": "Rome", "to": "/etc"}'),
        call('{"city": "Ro'),
        call('{"city": "A forbidden place"}'),
        call('{"city": "A\\nforbidden place"}'),
        call('{"city": "A\\u0009\\u0066orbidden place"}'),
        call('{"city": "A forbidden place", "city": "Rome"}'),
        call('{"city": "Rome", "days": 3, "days": 4}'),
        call('{"city": "Rome", "days": NaN}'),
        call("[" * 100_000),
        call('{"city": "Rome"}', "delete_all"),
    ],
)
async def test_a_call_that_is_not_valid_never_arrives(script):
    whole, (calls, reason, refusal), asked = await answered("careful", script)
    assert (whole.message.tool_calls, calls) == (None, [])
    assert (whole.finish_reason, reason, refusal) == ("content_filter", "content_filter", REFUSAL)
    assert asked == 3  # it was repaired as often as it may be


async def test_no_arguments_are_sent_as_an_empty_object():
    tool = {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}
    piece = {"index": 0, "id": "x", "function": {"name": "now"}}
    script = [frame({"tool_calls": [piece]}), frame({}, "tool_calls")]
    async with (
        upstream(script) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        whole = await client.chat.completions.create(model="plain", messages=ASK, tools=[tool])
    assert whole.choices[0].message.tool_calls[0].function.arguments == "{}"


@pytest.mark.parametrize(
    "written",
    [
        '{"a": "A\\nforbidden thing"}',
        '{"a": "\\u0066orbidden"}',
        '{"a": "\\u0066orbidden", "a": "ok"}',
        '{"\\tforbidden": 1}',
        '[["\\u0066orbidden"]]',
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_what_is_hidden_in_json_is_not_sent_however_it_comes(written, stream):
    """By escapes, by a key that is there twice, and by deltas that are judged one by one."""
    pieces = [written[at : at + 3] for at in range(0, len(written), 3)]
    async with (
        upstream(pieces) as behind,
        gateway(behind.url) as serving,
        httpx.AsyncClient(trust_env=False) as client,
    ):
        asked = {"model": "strict", "messages": ASK, "stream": stream}
        asked["response_format"] = {"type": "json_object"}
        answer = await client.post(f"{serving.url}/v1/chat/completions", json=asked)
        assert answer.status_code == 400, answer.text
        assert "orbidden" not in answer.text
        asked["model"] = "careful"  # which keeps what was good, and refuses the rest
        answer = await client.post(f"{serving.url}/v1/chat/completions", json=asked)
        assert "content_filter" in answer.text
        assert "orbidden" not in answer.text


async def test_json_with_rules_is_held_until_all_of_it_is_judged():
    script = ['{"a": "for', "bid", 'den thing", "b": 1}']
    async with (
        upstream(script) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        for model, sent in (("careful", ""), ("plain", "".join(script))):
            stream = await client.chat.completions.create(
                model=model, messages=ASK, stream=True, response_format={"type": "json_object"}
            )
            text = ""
            async for chunk in stream:
                text += chunk.choices[0].delta.content or ""
            assert text == sent


async def test_a_repair_makes_it_valid():
    def script(body, before):
        return call('{"city": 7}') if not before else call('{"city": "Rome"}')

    whole, _, asked = await answered("careful", script)
    assert whole.message.tool_calls[0].function.arguments == '{"city": "Rome"}'
    assert asked == 2


@pytest.mark.parametrize("tools", [7, [7], [{"type": "function"}]])
def test_tools_that_are_none_are_refused(tools):
    with pytest.raises(RequestError):
        tools_of(tools)


def test_a_schema_that_cannot_be_used_refuses_the_calls_of_its_tool_only():
    def tool(name, schema):
        return {"type": "function", "function": {"name": name, "parameters": schema}}

    odd, anything, none = tools_of(
        [tool("odd", {"type": "nothing"}), tool("any", {}), tool("none", None)]
    )
    assert "its schema cannot be used: this is not a JSON Schema" in complaint(odd, "{}")
    assert complaint(anything, '{"a": 1}') is None
    assert complaint(none, "{}") is None
    assert "its arguments are not a JSON object" in complaint(anything, "{")


@pytest.mark.parametrize(
    "schema",
    [{"pattern": "(a+)+$"}, {"$ref": "http://127.0.0.1:1/schema.json"}, {"$ref": "#/nowhere"}],
)
async def test_a_schema_that_means_harm_costs_no_time_and_fetches_nothing(schema):
    tool = {"type": "function", "function": {"name": "weather", "parameters": schema}}
    arguments = json.dumps("a" * 40 + "!")
    before = time.process_time()
    async with (
        upstream(call(arguments)) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        whole = await client.chat.completions.create(model="plain", messages=ASK, tools=[tool])
    assert whole.choices[0].finish_reason == "content_filter"
    assert time.process_time() - before < 20


NESTED = {"type": "object", "$ref": "#/$defs/d0", "$defs": {}}
for _n in range(24):
    NESTED["$defs"][f"d{_n}"] = {"allOf": [{"$ref": f"#/$defs/d{_n + 1}"}] * 2}
NESTED["$defs"]["d24"] = {}
TWICE = {
    "$ref": "#/$defs/d",
    "$defs": {
        "d": {"anyOf": [{"properties": {"a": {"$ref": "#/$defs/d"}}, "required": ["b"]}] * 2}
    },
}


@pytest.mark.parametrize(
    "schema",
    [
        {"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False},
        {"properties": {"a": {"pattern": "^(?=a)(a+)+$"}}},
        NESTED,
        TWICE,
    ],
)
def test_a_schema_that_could_stop_the_server_is_judged_within_bounds(schema):
    before = time.process_time()
    (made,) = tools_of([{"type": "function", "function": {"name": "x", "parameters": schema}}])
    deep = json.dumps({"a": "a" * 50 + "!"})
    for _ in range(40):
        deep = f'{{"a": {deep}}}'
    complaint(made, deep)
    complaint(made, json.dumps({"a": "a" * 50 + "!"}))
    assert time.process_time() - before < 10


async def test_an_escape_hides_nothing_from_the_rules():
    whole, (calls, reason, _), _ = await answered(
        "careful", call('{"city": "A \\u0066orbidden place"}')
    )
    assert (whole.message.tool_calls, calls, reason) == (None, [], "content_filter")
    said = ['{"name": ', '"\\u0066orbidden', ' place"}']
    async with (
        upstream(said) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        answer = await client.chat.completions.create(
            model="whole", messages=ASK, response_format={"type": "json_object"}
        )
    assert answer.choices[0].finish_reason == "content_filter"
    assert not answer.choices[0].message.content


def integers(name, **more):
    """A tool that takes an integer."""
    schema = {"type": "object", "properties": {"n": {"type": "integer", **more}}, "required": ["n"]}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


async def test_a_tool_whose_schema_cannot_be_used_spoils_no_other():
    odd = {"name": "odd", "parameters": {"$ref": "https://127.0.0.1:1/schema.json"}}
    tools = [integers(f"tool_{n}") for n in range(30)]
    names = [tool["function"]["name"] for tool in tools]
    tools.insert(15, {"type": "function", "function": odd})

    def script(body, before):
        if before:
            return call('{"n": 1}', "odd")
        calls = [
            {"index": at, "id": name, "function": {"name": name, "arguments": '{"n": 1}'}}
            for at, name in enumerate(names)
        ]
        return [*(frame({"tool_calls": [one]}) for one in calls), frame({}, "tool_calls")]

    async with (
        upstream(script) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        whole = await client.chat.completions.create(model="careful", messages=ASK, tools=tools)
        assert [one.function.name for one in whole.choices[0].message.tool_calls] == names
        whole = await client.chat.completions.create(model="careful", messages=ASK, tools=tools)
        assert whole.choices[0].message.tool_calls is None
        assert whole.choices[0].finish_reason == "content_filter"
        assert whole.choices[0].message.refusal == REFUSAL
        told = behind.requests[-1].body["messages"][0]["content"]  # the model
        assert "a call of odd: its schema cannot be used" in told


async def test_tools_may_take_more_than_is_read_of_a_body_before_its_slot():
    tools = [integers(f"tool_{n}", description="long " * 300) for n in range(100)]
    assert len(json.dumps(tools)) > 2 * SMALL_BODY
    for arguments, reason in (('{"n": 1}', "tool_calls"), ('{"n": "x"}', "content_filter")):
        async with (
            upstream(call(arguments, "tool_99")) as behind,
            gateway(behind.url) as serving,
            client_of(serving) as client,
        ):
            whole = await client.chat.completions.create(model="plain", messages=ASK, tools=tools)
            assert whole.choices[0].finish_reason == reason
            assert behind.requests[0].body["tools"] == tools


@pytest.mark.parametrize("keyword", ["$schema", "$ref", "$dynamicRef"])
async def test_no_address_in_a_schema_is_connected_to(keyword):
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        schema = {keyword: f"http://127.0.0.1:{elsewhere.getsockname()[1]}/", "type": "object"}
        tool = {"type": "function", "function": {"name": "weather", "parameters": schema}}
        asked = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        async with (
            upstream(call("{}")) as behind,
            gateway(behind.url) as serving,
            client_of(serving) as client,
        ):
            whole = await client.chat.completions.create(model="plain", messages=ASK, tools=[tool])
            assert whole.choices[0].finish_reason == "content_filter"
            with pytest.raises(openai.BadRequestError, match="cannot be used"):
                await client.chat.completions.create(
                    model="plain", messages=ASK, response_format=asked
                )
        assert select.select([elsewhere], [], [], 0)[0] == []
