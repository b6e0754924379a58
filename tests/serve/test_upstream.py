"""Tests of `streamval.serve.upstream`: what the frames of an upstream may do."""

import json

import httpx
import openai
import pytest

from streamval.backends.base import GenerationRequest
from streamval.errors import RateLimitError, StreamBrokenError
from streamval.serve.endpoints import endpoint_of
from streamval.serve.upstream import IMPOSSIBLE, MAX_CALLS, Upstream, merged
from streamval.serve.wire import asked
from streamval.types.context import Message
from tests.support.gateway import ASK, FILE, gateway
from tests.support.upstream import frame, upstream, words


def test_a_repair_changes_the_text_and_leaves_the_pictures():
    raw = [
        {"role": "system", "content": "Be brief.", "name": "us"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "What?"}, {"type": "image_url", "x": 1}],
        },
    ]
    same = [Message("system", "Be brief."), Message("user", "What?")]
    assert merged(raw, same) == raw
    changed = [
        same[0],
        Message("user", "What? Again."),
        Message("assistant", "It"),
        Message("user", "Go on."),
    ]
    assert merged(raw, changed) == [
        raw[0],
        {
            "role": "user",
            "content": [{"type": "text", "text": "What? Again."}, {"type": "image_url", "x": 1}],
        },
        {"role": "assistant", "content": "It"},
        {"role": "user", "content": "Go on."},
    ]


async def spoken(script, **options):
    """The deltas of an endpoint, and its relay."""
    async with upstream(script) as behind:
        endpoint = endpoint_of(
            Upstream(model="openai/m", api_base=behind.url, api_key="sk-12345678")
        )
        body = json.dumps({"model": "m", "messages": ASK, **options}).encode()
        made = asked(body, "chat")
        relay = endpoint.relay(made)
        try:
            request = GenerationRequest(made.turns, options=made.options)
            return [delta async for delta in relay.stream(request)], relay
        finally:
            await endpoint.aclose()


async def test_log_probabilities_go_with_the_text_that_they_are_of():
    entries = [
        {"token": token, "logprob": -0.5}
        for token in ("One", " is", " fine.", " Two", " is", " too.")
    ]
    script = [frame({"content": one["token"]}, logprobs={"content": [one]}) for one in entries]
    async with upstream(script) as behind, gateway(behind.url) as serving:
        async with openai.AsyncOpenAI(base_url=f"{serving.url}/v1", api_key="x") as client:
            stream = await client.chat.completions.create(
                model="plain", messages=ASK, stream=True, logprobs=True
            )
            got = []
            async for chunk in stream:
                choice = chunk.choices[0]
                if choice.delta.content:
                    got.append((choice.delta.content, [t.token for t in choice.logprobs.content]))
        assert got == [
            ("One is fine.", ["One", " is", " fine."]),
            (" Two is too.", [" Two", " is", " too."]),
        ]
    assert behind.requests[0].body["logprobs"] is True


async def test_text_completions_have_log_probabilities_of_their_own_shape():
    tokens = ["One", " is", " fine.", " Two", " is", " too."]

    def legacy(token):
        said = {"tokens": [token], "token_logprobs": [-0.5], "top_logprobs": [{"x": -1}]}
        return {"choices": [{"index": 0, "text": token, "logprobs": said, "finish_reason": None}]}

    script = [*map(legacy, tokens), {"choices": [{"text": "", "finish_reason": "stop"}]}]
    file = FILE.replace("openai/m,", "openai/m, completion: text,", 1)
    async with (
        upstream(script) as behind,
        gateway(behind.url, file=file) as serving,
        openai.AsyncOpenAI(base_url=f"{serving.url}/v1", api_key="x") as client,
    ):
        stream = await client.completions.create(
            model="plain", prompt="Count:", stream=True, logprobs=3
        )
        got = [choice.logprobs async for chunk in stream for choice in chunk.choices if choice.text]
        whole = await client.completions.create(model="plain", prompt="Count:", logprobs=3)
        chat = await client.chat.completions.create(
            model="plain", messages=ASK, logprobs=True, max_completion_tokens=20
        )
    assert [one.tokens for one in got] == [tokens[:3], tokens[3:]]
    assert got[1].text_offset == [12, 16, 19]
    assert whole.choices[0].logprobs.tokens == tokens
    assert whole.choices[0].logprobs.token_logprobs == [-0.5] * 6
    assert whole.choices[0].logprobs.text_offset == [0, 3, 6, 12, 16, 19]
    assert [entry.token for entry in chat.choices[0].logprobs.content] == tokens
    assert [request.body["logprobs"] for request in behind.requests] == [3, 3, 1]
    assert behind.requests[-1].body["max_tokens"] == 20


@pytest.mark.parametrize(
    "said",
    [
        {"tokens": ["One"], "token_logprobs": []},
        {"tokens": ["One"]},
        {"tokens": [7], "token_logprobs": [-1]},
        {"tokens": ["One"], "token_logprobs": [None]},
        {"content": [{"token": "One"}]},
        {"content": 7},
        7,
    ],
)
async def test_log_probabilities_that_are_none_break_the_stream(said):
    with pytest.raises(StreamBrokenError):
        await spoken([{"choices": [{"text": "One", "logprobs": said}]}])


async def test_a_log_probability_that_json_cannot_write_is_the_least_one():
    raw = b'data: {"choices": [{"delta": {"content": "One"}, "logprobs": {"content": '
    raw += b'[{"token": "One", "logprob": -Infinity}]}}]}\n\n'
    _, relay = await spoken([raw])
    assert [known.logprob for known in relay.logprobs] == [IMPOSSIBLE]


async def test_a_text_completion_has_no_tools():
    file = FILE.replace("openai/m,", "openai/m, completion: text,", 1)
    async with (
        gateway("http://127.0.0.1:9/v1", file=file) as serving,
        openai.AsyncOpenAI(base_url=f"{serving.url}/v1", api_key="x") as client,
    ):
        tool = {"type": "function", "function": {"name": "weather", "parameters": {}}}
        with pytest.raises(openai.BadRequestError, match="which have no tools"):
            await client.chat.completions.create(model="plain", messages=ASK, tools=[tool])


@pytest.mark.parametrize(
    "call",
    [
        {"index": MAX_CALLS, "function": {"name": "x"}},
        {"index": -1},
        {"index": "0"},
        {"index": 0, "function": {"arguments": "x" * 2_000_000}},
        {"index": 0, "function": {"arguments": 7}},
        7,
    ],
)
async def test_tool_calls_that_are_none_break_the_stream(call):
    with pytest.raises(StreamBrokenError):
        await spoken([frame({"tool_calls": [call]})])


async def test_reasoning_that_is_not_judged_is_not_sent():
    script = [frame({"reasoning_content": "I think so."}), *words("All is well.")]
    deltas, _ = await spoken(script)
    assert "".join(delta.text for delta in deltas) == "All is well."


async def test_when_to_come_again_is_kept():
    with pytest.raises(RateLimitError) as raised:
        await spoken((429, "Retry-After: 2.5", b"slow"))
    assert raised.value.retry_after == 2.5
    with pytest.raises(RateLimitError) as raised:
        await spoken((429, "Retry-After: Wed, 21 Oct 2026 07:28:00 GMT", b"slow"))
    assert raised.value.retry_after is None


async def test_a_tool_call_that_nobody_asked_for_never_arrives():
    call = {"index": 0, "id": "1", "function": {"name": "delete_all", "arguments": "{}"}}
    script = [frame({"tool_calls": [call]}), frame({}, "tool_calls")]
    async with upstream(script) as behind, gateway(behind.url) as serving:
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            body = {"model": "plain", "messages": ASK}
            answer = (await client.post(f"{serving.url}/v1/chat/completions", json=body)).json()
    assert answer["choices"][0]["finish_reason"] == "content_filter"
    assert "delete_all" not in json.dumps(answer)


async def test_nothing_beside_the_text_carries_what_was_not_judged():
    evil = "forbidden"
    entry = {
        "token": "One",
        "logprob": -1,
        "bytes": [1],
        "top_logprobs": [{"token": evil, "logprob": -1}],
        "x": evil,
    }
    script = [
        frame(
            {"content": "One is fine."},
            logprobs={"content": [entry, {"token": evil, "logprob": 0}]},
        ),
        frame({}, evil, logprobs={"content": [{"token": "", "logprob": 0, "x": evil}]}),
    ]
    async with upstream(script) as behind, gateway(behind.url) as serving:
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            for stream in (True, False):
                body = {"model": "plain", "messages": ASK, "stream": stream, "logprobs": True}
                answer = await client.post(f"{serving.url}/v1/chat/completions", json=body)
                assert "One is fine." in answer.text
                assert evil not in answer.text
    async with upstream([*words("One is fine. Two is"), {"error": {"message": evil}}]) as behind:
        async with gateway(behind.url) as serving, httpx.AsyncClient(trust_env=False) as client:
            body = {"model": "plain", "messages": ASK, "stream": True}
            answer = await client.post(f"{serving.url}/v1/chat/completions", json=body)
            assert "the upstream broke off" in answer.text
            assert evil not in answer.text
