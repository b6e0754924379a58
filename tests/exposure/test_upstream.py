"""Tests of `streamval.exposure.upstream`, over a real socket."""

import asyncio
import json
from contextlib import asynccontextmanager

import httpx
import pytest

from streamval.exposure.planted import HARMLESS, WRONG_FIELD, all_cases
from streamval.exposure.upstream import GOOD, Upstream

CASES = all_cases()


def numbered(**wanted):
    return next(
        n
        for n, case in enumerate(CASES)
        if all(getattr(case, name) == value for name, value in wanted.items())
    )


@asynccontextmanager
async def listening(pause=0.0):
    upstream = Upstream(pause)
    async with (
        upstream.listening("127.0.0.1", 0) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/v1", trust_env=False) as client,
    ):
        yield upstream, client


def asked(number, *more, stream=True):
    return {"model": "m", "stream": stream} | {
        "messages": [{"role": "user", "content": f"case {number}"}, *more]
    }


def deltas(response):
    lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: {")]
    return [json.loads(line)["choices"][0] for line in lines]


@pytest.mark.parametrize("place", ["text", "reasoning", "tool"])
async def test_a_case_comes_in_its_pieces_streamed_and_as_a_whole(place):
    number = numbered(place=place)
    case = CASES[number]
    async with listening() as (upstream, client):
        streamed = deltas(await client.post("/chat/completions", json=asked(number)))
        assert upstream.sent[number] == len(case.pieces)
        whole = await client.post("/chat/completions", json=asked(number, stream=False))
    pieces = [choice["delta"] for choice in streamed]
    (message,) = [choice["message"] for choice in whole.json()["choices"]]
    text = "".join(case.pieces)
    if place == "text":
        assert "".join(one.get("content", "") for one in pieces) == message["content"] == text
    elif place == "reasoning":
        thought = "".join(one.get("reasoning_content", "") for one in pieces)
        assert thought == message["reasoning_content"] == text
    else:
        calls = [one["tool_calls"][0]["function"]["arguments"] for one in pieces if one]
        assert json.loads("".join(calls)) == {"text": text}
        arguments = message["tool_calls"][0]["function"]["arguments"]
        assert json.loads(arguments) == {"text": text}
    assert streamed[-1]["finish_reason"] == ("tool_calls" if place == "tool" else "stop")


async def test_a_repair_gets_a_good_rest_and_is_not_counted():
    number = numbered(kind=WRONG_FIELD)
    kept = {"role": "assistant", "content": '{"name":'}
    async with listening() as (upstream, client):
        await client.post("/chat/completions", json=asked(number))
        sent = upstream.sent[number]
        again = deltas(await client.post("/chat/completions", json=asked(number, kept)))
        again_text = "".join(choice["delta"].get("content", "") for choice in again)
        assert json.loads(kept["content"] + again_text)["name"] == "Ann"
        other = {"role": "user", "content": "There was something wrong."}
        text = deltas(await client.post("/chat/completions", json=asked(0, other)))
        assert GOOD in "".join(choice["delta"].get("content", "") for choice in text)
    assert upstream.sent == {number: sent}
    assert sent == len(CASES[number].pieces)


async def test_it_stops_where_the_client_goes():
    number = numbered(kind=HARMLESS)
    async with listening(pause=0.01) as (upstream, client):
        async with client.stream("POST", "/chat/completions", json=asked(number)) as response:
            async for _ in response.aiter_lines():
                break
        before = upstream.sent[number]
        await asyncio.sleep(0.1)
        assert upstream.sent[number] <= before + 3 < len(CASES[number].pieces)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no json",
        b"[]",
        b"{}",
        b'{"messages": []}',
        b'{"messages": [{"role": "user", "content": "hello"}]}',
        b'{"messages": [{"role": "user", "content": "case 999"}]}',
        b'{"messages": [{"content": "case 1"}]}',
        b'{"messages": "case 1"}',
    ],
)
async def test_other_requests_are_refused(body):
    async with listening() as (_, client):
        answer = await client.post("/chat/completions", content=body)
    assert answer.status_code == 400
    assert "not a planted case" in answer.json()["error"]["message"]


async def test_it_lists_a_model_and_survives_what_is_not_http():
    async with listening() as (_, client):
        reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
        writer.write(b"\x00" * 100)
        writer.write_eof()
        await reader.read()
        writer.close()
        listed = await client.get("/models")
    assert listed.json()["data"][0]["id"] == "m"
