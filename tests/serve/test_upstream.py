"""Tests of `streamval.serve.upstream`: what the frames of an upstream may do."""

import json
import time

import httpx
import openai
import pytest

from streamval.backends.base import GenerationRequest
from streamval.errors import RateLimitError, StreamBrokenError
from streamval.serve.endpoints import endpoint_of
from streamval.serve.upstream import IMPOSSIBLE, Upstream
from streamval.types.deltas import content_of
from streamval.types.messages import Message
from streamval.wire.completions import MAX_CALLS
from streamval.wire.openai_chat import read_request
from tests.support.gateway import ASK, FILE, gateway
from tests.support.upstream import frame, upstream, words


async def spoken(script, **options):
    """The deltas of an endpoint, and its relay."""
    async with upstream(script) as behind:
        endpoint = endpoint_of(
            Upstream(model="openai/m", api_base=behind.url, api_key="sk-12345678")
        )
        body = json.dumps({"model": "m", "messages": ASK, **options}).encode()
        made = read_request(body)
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
                model="judged", messages=ASK, stream=True, logprobs=True
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
            model="judged", prompt="Count:", stream=True, logprobs=3
        )
        got = [choice.logprobs async for chunk in stream for choice in chunk.choices if choice.text]
        whole = await client.completions.create(model="judged", prompt="Count:", logprobs=3)
        chat = await client.chat.completions.create(
            model="judged", messages=ASK, logprobs=True, max_completion_tokens=20
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
        {"tokens": ["One"], "token_logprobs": [10**400]},
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


async def test_a_token_of_which_nothing_is_known_is_left_out():
    said = {"tokens": ["O", "ne"], "token_logprobs": [None, -0.5]}
    _, relay = await spoken([{"choices": [{"text": "One", "logprobs": said}]}])
    assert [*relay.logprobs] == [(3, "ne", -0.5, ())]


async def test_a_character_in_two_deltas_counts_as_one():
    def said(text):
        return frame({"content": text}, logprobs={"content": [{"token": text, "logprob": -1}]})

    script = [said("Hi "), said("\ud83d"), said("\ude00"), said(" there.")]
    async with upstream(script) as behind, gateway(behind.url) as serving:
        async with openai.AsyncOpenAI(base_url=f"{serving.url}/v1", api_key="x") as client:
            whole = await client.chat.completions.create(model="plain", messages=ASK, logprobs=True)
    assert whole.choices[0].message.content == "Hi \U0001f600 there."
    got = [entry.token for entry in whole.choices[0].logprobs.content]
    assert got == ["Hi ", " there."]


def entries(text):
    """A text as deltas, each with its log probability."""
    return [
        frame({"content": piece}, logprobs={"content": [{"token": piece, "logprob": -1}]})
        for piece in words(text)
    ]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("repair", ["{loop_budget: 2}", "{loop_budget: 2, mode: ask}"])
async def test_log_probabilities_over_a_repair_are_of_the_text_that_stands(repair, stream):
    def script(_, before):
        return entries(" Two is good. So." if before else "One is fine. Two is forbidden here. X.")

    file = FILE.replace("{{loop_budget: 3}}", repair.replace("{", "{{").replace("}", "}}"))
    async with upstream(script) as behind, gateway(behind.url, file=file) as serving:
        async with openai.AsyncOpenAI(base_url=f"{serving.url}/v1", api_key="x") as client:
            asked = {"model": "careful", "messages": ASK, "logprobs": True, "stream": stream}
            answer = await client.chat.completions.create(**asked)
            choices = answer.choices if not stream else [c async for k in answer for c in k.choices]
    known = [entry for choice in choices if choice.logprobs for entry in choice.logprobs.content]
    # A token that ends beyond its chunk ("fine. ") is left out.
    added = (
        [] if "ask" in repair else [" ", "Two ", "is ", "So."]
    )  # asked in words, no place is known
    assert [entry.token for entry in known] == ["One ", "is ", *added]


async def test_done_is_the_end_though_the_connection_stays_open():
    script = [*words("One is fine."), frame({}, "stop"), b"data: [DONE]\n\n", "STALL"]
    deltas, _ = await spoken(script)
    assert "".join(map(content_of, deltas)) == "One is fine."


async def test_an_answer_that_is_too_long_is_broken_off(monkeypatch):
    monkeypatch.setattr("streamval.serve.upstream.MAX_ANSWER", 10_000)
    for script in ([frame({"content": "x" * 999})] * 20, [frame({}, x="x" * 999)] * 20):
        with pytest.raises(StreamBrokenError, match="more than 10,000 bytes"):
            await spoken(script)


async def test_what_an_upstream_quotes_of_a_repair_or_to_a_judge_is_not_told():
    quoting = (400, "Content-Type: application/json", b'{"error": {"message": "so: SECRET"}}')

    def on_repair(_, before):
        return quoting if before else words("One is fine. Two is forbidden here. Three.")

    def to_judge(body, _):
        return words("A SECRET.") if "Be polite" not in json.dumps(body) else quoting

    judged = FILE.replace("[{{forbidden_words: [forbidden]}}]", '[{{judge: "Be polite."}}]')
    for script, file in ((on_repair, FILE), (to_judge, judged)):
        async with (
            upstream(script) as behind,
            gateway(behind.url, file=file) as serving,
            httpx.AsyncClient(trust_env=False) as client,
        ):
            for model in ("careful", "whole"):
                behind.requests.clear()
                body = {"model": model, "messages": ASK}
                answer = await client.post(f"{serving.url}/v1/chat/completions", json=body)
                assert answer.status_code in (200, 502), answer.text
                assert "SECRET" not in answer.text
                assert "openai/m" not in answer.text


async def test_a_judges_backend_keeps_nothing_beside_the_text():
    """One serves many streams at a time, as the pipeline of a job does."""
    call = {"index": 0, "function": {"name": "x", "arguments": "{}"}}
    script = [*entries("One is fine."), frame({"tool_calls": [call]}), frame({}, "stop")]
    async with upstream(script) as behind:
        endpoint = endpoint_of(Upstream(model="openai/m", api_base=behind.url))
        judge = endpoint.judge()
        request = GenerationRequest((Message("user", "Hi"),))
        for _ in range(3):
            said = [delta.text async for delta in judge.stream(request)]
            assert "".join(said) == "One is fine."
            assert len(judge.logprobs) == 0
        await endpoint.aclose()


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
    assert "".join(map(content_of, deltas)) == "All is well."


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
                body = {"model": "judged", "messages": ASK, "stream": stream, "logprobs": True}
                answer = await client.post(f"{serving.url}/v1/chat/completions", json=body)
                assert "One is fine." in answer.text
                assert evil not in answer.text
    async with upstream([*words("One is fine. Two is"), {"error": {"message": evil}}]) as behind:
        async with gateway(behind.url) as serving, httpx.AsyncClient(trust_env=False) as client:
            body = {"model": "judged", "messages": ASK, "stream": True}
            answer = await client.post(f"{serving.url}/v1/chat/completions", json=body)
            assert "the upstream broke off" in answer.text
            assert evil not in answer.text


JSON = {"content-type": "application/json"}
LIMITED = FILE.replace(
    '"{url}", api_key: sk-of-the-upstream,',
    '"{url}", api_key: sk-of-the-upstream, options: {{max_tokens: {{at_most: 20}}, '
    "seed: {{always: 7}}, top_p: 0.5}},",
)


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ({}, {"max_tokens": 20}),
        ({"max_tokens": 5}, {"max_tokens": 5}),
        ({"max_tokens": 5000}, {"max_tokens": 20}),
        ({"max_completion_tokens": 5000, "seed": 1}, {"max_completion_tokens": 20}),
        (
            {"max_tokens": 9, "max_completion_tokens": 50},
            {"max_tokens": 9, "max_completion_tokens": 20},
        ),
        ({"top_p": 0.9, "min_p": 0.1}, {"max_tokens": 20, "top_p": 0.9, "min_p": 0.1}),
    ],
)
async def test_the_file_limits_and_fixes_what_a_client_may_ask_for(asked, sent):
    async with (
        upstream(words("One.")) as behind,
        gateway(behind.url, file=LIMITED) as serving,
        httpx.AsyncClient(base_url=serving.url, trust_env=False) as client,
    ):
        body = {"model": "plain", "messages": ASK, **asked}
        assert (await client.post("/v1/chat/completions", json=body)).status_code == 200
        (request,) = behind.requests
        own = {"messages", "model", "stream", "stream_options"}
        assert {n: v for n, v in request.body.items() if n not in own} == {
            "seed": 7,
            "top_p": 0.5,
            **sent,
        }
        wrong = {**body, "max_tokens": "5000"}
        assert (await client.post("/v1/chat/completions", json=wrong)).status_code == 400


@pytest.mark.parametrize(
    "option",
    ["api_base", "base_url", "api_key", "extra_headers", "extra_body", "extra_query", "headers"],
)
async def test_a_client_cannot_say_where_its_request_goes_or_with_which_key(option):
    async with (
        upstream(words("One.")) as behind,
        gateway(behind.url) as serving,
        httpx.AsyncClient(base_url=serving.url, trust_env=False) as client,
    ):
        body = {"model": "plain", "messages": ASK, option: {"Authorization": "Bearer mine"}}
        answer = await client.post("/v1/chat/completions", json=body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, option)
        assert not behind.requests


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "[NaN]"])
async def test_what_json_cannot_say_never_goes_upstream(number):
    async with (
        upstream(words("One.")) as behind,
        gateway(behind.url) as serving,
        httpx.AsyncClient(base_url=serving.url, trust_env=False) as client,
    ):
        body = json.dumps({"model": "plain", "messages": ASK, "top_p": "@"}).replace('"@"', number)
        assert (
            await client.post("/v1/chat/completions", content=body, headers=JSON)
        ).status_code == 400
        assert not behind.requests


async def test_no_secrets_are_learned_from_a_clients_options():
    """60,000 of them, and an upstream that refuses, made everybody wait 13 seconds."""
    refused = (400, "Content-Type: application/json", b'{"error": {"message": "bad seed"}}')
    async with (
        upstream(refused) as behind,
        gateway(behind.url) as serving,
        httpx.AsyncClient(base_url=serving.url, trust_env=False, timeout=60) as client,
    ):
        keys = {f"key{n}": f"{n:060}" for n in range(40_000)}
        body = {"model": "plain", "messages": ASK, "metadata": keys}
        before = time.process_time()
        answer = await client.post("/v1/chat/completions", json=body)
        assert (answer.status_code, "bad seed" in answer.text) == (400, True)
        assert time.process_time() - before < 10
