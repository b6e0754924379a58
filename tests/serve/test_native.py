"""Tests of `streamval.serve.native`: upstreams that speak Responses or Anthropic's Messages."""

import json

import anthropic
import httpx
import openai
import pytest

from streamval.errors import ConfigurationError
from streamval.serve.config_file import parse_configuration
from streamval.types.messages import ToolCall
from streamval.types.results import Usage
from streamval.wire.answers import frames
from streamval.wire.messages_writer import MessagesWriter
from streamval.wire.responses_writer import ResponsesWriter
from tests.support.gateway import ASK, gateway
from tests.support.upstream import upstream

FILE = """
upstreams:
  responses: {{model: openai/m, api_base: "{url}/v1", completion: responses, api_key: sk-upstream, options: {{max_tokens: {{at_most: 50}}}}}}
  messages: {{model: anthropic/c, api_base: "{url}/v1", completion: messages, api_key: sk-upstream, options: {{max_tokens: {{at_most: 50}}}}}}
models:
  responses: {{upstream: responses, requirements: [{{forbidden_words: [forbidden]}}], reasoning: deliver, repair: {{loop_budget: 2, mode: ask}}}}
  messages: {{upstream: messages, requirements: [{{forbidden_words: [forbidden]}}], reasoning: deliver, repair: {{loop_budget: 2, mode: ask}}}}
  quiet: {{upstream: messages}}
server: {{port: 0{server}}}
"""

SEALED = {"type": "reasoning", "id": "rs_upstream", "summary": [], "encrypted_content": "gAAA"}
SIGNED = {"type": "thinking", "thinking": "Let me see.", "signature": "c2lnbmVk"}
REDACTED = {"type": "redacted_thinking", "data": "ZW5j"}
CALL = ToolCall(0, "call_1", "now", {}, "{}")


def written(make, *, thought="", blocks=(), text="One is fine.", calls=(), reason="stop"):
    """An answer as a server of the protocol writes it."""
    writer = make("upstream_1", "m")
    contents = writer.begin()
    contents += writer.reasoning(thought) if thought else []
    contents += [one for block in blocks for one in writer.opaque(block)]
    for piece in [text[at : at + 4] for at in range(0, len(text), 4)]:
        contents += writer.text(piece)
    contents += writer.tool_calls(calls)
    contents += writer.end(reason, Usage(7, 3, source="backend"))
    return [frames(contents).encode()]


def by_responses(**answer):
    return lambda *_: written(ResponsesWriter, **answer)


def by_messages(**answer):
    return lambda *_: written(MessagesWriter, **answer)


TOOL = {"type": "function", "name": "now", "parameters": {"type": "object", "properties": {}}}


@pytest.mark.parametrize("stream", [True, False])
async def test_responses_go_to_such_an_upstream_as_they_came(stream):
    asked = {
        "model": "responses",
        "input": [SEALED, {"role": "user", "content": "Say it."}],
        "tools": [{**TOOL, "strict": True}],
        "reasoning": {"effort": "low"},
        "include": ["reasoning.encrypted_content"],
        "metadata": {"a": "b"},
        "max_output_tokens": 500,
    }
    script = by_responses(blocks=[SEALED], calls=[CALL])
    async with (
        upstream(script) as behind,
        gateway(behind.url.removesuffix("/v1"), file=FILE) as serving,
        openai.AsyncOpenAI(base_url=f"{serving.url}/v1", api_key="x", max_retries=0) as client,
    ):
        if stream:
            async for event in await client.responses.create(**asked, stream=True):
                last = event
            whole = last.response
        else:
            whole = await client.responses.create(**asked)
    (sent,) = behind.requests
    changed = {"model": "m", "max_output_tokens": 50, "stream": True, "store": False}
    assert sent.body == {**asked, **changed}
    assert sent.headers["authorization"] == "bearer sk-upstream"
    sealed, said, called = (item.model_dump(exclude_none=True) for item in whole.output)
    assert {**sealed, **SEALED} == sealed
    assert said["content"][0]["text"] == "One is fine."
    assert (called["name"], called["arguments"]) == ("now", "{}")
    assert whole.id == "upstream_1"
    assert (whole.usage.input_tokens, whole.usage.output_tokens) == (7, 3)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("model", ["messages", "quiet"])
async def test_messages_go_to_such_an_upstream_as_they_came(stream, model):
    asked = {
        "model": model,
        "max_tokens": 500,
        "system": [{"type": "text", "text": "Be.", "cache_control": {"type": "ephemeral"}}],
        "messages": [*ASK, {"role": "assistant", "content": [SIGNED]}, *ASK],
        "tools": [{"name": "now", "input_schema": {"type": "object"}}],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    }
    script = by_messages(thought="Let me see.", blocks=[SIGNED, REDACTED], calls=[CALL])
    async with (
        upstream(script) as behind,
        gateway(behind.url.removesuffix("/v1"), file=FILE) as serving,
        anthropic.AsyncAnthropic(base_url=serving.url, api_key="x", max_retries=0) as client,
    ):
        create = client.beta.messages.create
        if stream:
            async with client.beta.messages.stream(**asked, betas=["new-1"]) as events:
                whole = await events.get_final_message()
        else:
            whole = await create(**asked, betas=["new-1"])
    (sent,) = behind.requests
    sent.body.pop("stream")
    assert sent.body == {**asked, "model": "c", "max_tokens": 50}
    assert (sent.headers["x-api-key"], sent.headers["anthropic-beta"]) == ("sk-upstream", "new-1")
    assert sent.headers["anthropic-version"] >= "2023-06-01"
    blocks = [block.model_dump(exclude_none=True) for block in whole.content]
    told = [*([SIGNED] if model == "messages" else []), REDACTED]
    assert blocks[: len(told)] == told
    assert [block["type"] for block in blocks[len(told) :]] == ["text", "tool_use"]
    assert (whole.stop_reason, whole.usage.output_tokens) == ("tool_use", 3)


@pytest.mark.parametrize(
    ("model", "make"), [("responses", ResponsesWriter), ("messages", MessagesWriter)]
)
@pytest.mark.parametrize("client", ["responses", "messages", "chat"])
async def test_a_repair_in_words_is_added_to_what_the_client_sent(model, make, client):
    bad, good = "One is fine. Two is forbidden.", "Two is good."
    paths = {
        "responses": ("/v1/responses", {"input": "Say it."}),
        "messages": ("/v1/messages", {"max_tokens": 99, "messages": ASK}),
        "chat": ("/v1/chat/completions", {"messages": ASK}),
    }
    path, body = paths[client]

    def script(_, before):
        return written(make, text=good if before else bad)

    async with upstream(script) as behind:
        async with gateway(behind.url.removesuffix("/v1"), file=FILE) as serving:
            async with httpx.AsyncClient(trust_env=False, timeout=60) as asking:
                answer = await asking.post(serving.url + path, json={"model": model, **body})
    assert answer.status_code == 200, answer.text
    assert "One is fine. Two is good." in answer.text
    assert "forbidden" not in answer.text
    first, second = (one.body.get("input") or one.body["messages"] for one in behind.requests)
    first = ASK if isinstance(first, str) else first
    assert first[0] in second
    assert len(second) == len(first) + 3  # what was wrong, what stands, and to go on
    assert "One is fine." in json.dumps(second[-2])


@pytest.mark.parametrize("protocol", ["responses", "messages"])
async def test_an_upstream_that_breaks_off_or_refuses_says_so(protocol):
    path, body = {
        "responses": ("/v1/responses", {"input": "Say it."}),
        "messages": ("/v1/messages", {"max_tokens": 9, "messages": ASK}),
    }[protocol]
    make = {"responses": ResponsesWriter, "messages": MessagesWriter}[protocol]
    begun = make("u", "m")
    half = [frames([*begun.begin(), *begun.text("One is fine. Two")]).encode(), "END"]
    failed = [
        frames(
            [*make("u", "m").begin(), *make("u", "m").fail({"error": {"message": "no"}})]
        ).encode()
    ]
    refused = (400, "Content-Type: application/json", b'{"error": {"message": "too long"}}')
    told = []
    for answer in (half, failed, refused):
        async with upstream(lambda *_, said=answer: said) as behind:
            async with gateway(behind.url.removesuffix("/v1"), file=FILE) as serving:
                async with httpx.AsyncClient(trust_env=False, timeout=60) as asking:
                    given = await asking.post(serving.url + path, json={"model": protocol, **body})
                    told.append((given.status_code, given.text))
    assert [status for status, _ in told] == [502, 502, 400]
    assert "too long" in told[2][1]


async def test_what_is_not_translated_for_messages_is_refused_by_name():
    picture = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:x"}}]}]
    tool = {"type": "function", "function": {"name": "now", "parameters": {}}}
    async with upstream(by_messages()) as behind:
        async with gateway(behind.url.removesuffix("/v1"), file=FILE) as serving:
            async with httpx.AsyncClient(trust_env=False, timeout=60) as asking:
                for body in (
                    {"messages": picture},
                    {"messages": ASK, "tools": [tool]},
                    {"messages": ASK, "seed": 1},
                ):
                    answer = await asking.post(
                        f"{serving.url}/v1/chat/completions", json={"model": "messages", **body}
                    )
                    assert answer.status_code == 400
                    assert any(name in answer.text for name in ("image_url", "tools", "seed"))
    assert behind.requests == []


def test_responses_cannot_be_said_to_continue():
    written = "upstreams: {a: {model: openai/m, completion: responses, continues: message}}\nmodels: {m: {upstream: a}}"
    with pytest.raises(ConfigurationError, match="never continue"):
        parse_configuration(written, "a.yaml", {})
