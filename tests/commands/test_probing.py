"""Tests of `streamval.commands.probing`, on servers that lie about what they can do."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from streamval.backends.openai import OpenAIBackend
from streamval.commands.probe import _line, _ways_of
from streamval.commands.probing import as_json, probe
from tests.support.upstream import frame, upstream, words

COUNT = "one, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve"
DAYS = "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday"


def whole_answer(messages):
    asked = messages[0]["content"]
    return COUNT if "Count" in asked else DAYS if "days" in asked else "It is as you say."


def begins_anew(body, _):
    """Takes every field, and does nothing of it: it begins anew, and writes prose."""
    text = whole_answer(body.get("messages") or [{"content": body["prompt"]}])
    if body.get("tools"):
        text = 'weather(city="Rome")'
    return [*words(text), {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, "END"]


def goes_on_with_a_flag(body, _):
    """Goes on only where the message has a flag; thinks in its text; calls tools; keeps schemas."""
    if "prompt" in body:
        return 404, "Content-Type: application/json", b'{"error": {"message": "no such path"}}'
    *_, last = body["messages"]
    text = whole_answer(body["messages"])
    if body.get("tools"):
        call = {
            "index": 0,
            "id": "c1",
            "function": {"name": "weather", "arguments": '{"city": "Rome"}'},
        }
        return [frame({"tool_calls": [call]}), frame({}, "tool_calls")]
    if body.get("response_format"):
        return ['{"lines": 2, ', '"title": "sea"}']
    if last.get("prefix"):
        return words(text[len(last["content"]) :])
    if "17 + 25" in last["content"]:
        return words("<think>I add them.</think> 42")
    return words(text)


async def found_by(url):
    seen = []
    ways = _ways_of(url, "m", "none")
    best, found, tags = await probe(ways, seen.append)
    assert seen == list(found.values())
    return best, {name: one.can for name, one in found.items()}, tags, found


async def test_a_server_that_takes_everything_and_does_nothing_of_it():
    async with upstream(begins_anew) as server:
        best, can, tags, found = await found_by(server.url)
    assert (best.name, tags) == ("chat, asked in words", None)  # what it repeats is left out
    assert can == {
        "reasoning": False,
        "usage": False,
        "finish reason": True,
        "chat, as it is": False,
        "chat, with a flag": False,
        "chat, by vLLM's field": False,
        "text completion": False,
        "chat, asked in words": True,
        "tools": False,
        "schema": False,
        "stops": None,
    }
    assert "it wrote" in found["schema"].why
    assert json.loads(as_json(best, found, "x"))["way"] == "chat, asked in words"


async def test_a_server_that_goes_on_in_one_way_only():
    async with upstream(goes_on_with_a_flag) as server:
        best, can, tags, found = await found_by(server.url)
    assert best.name == "chat, with a flag"
    assert tags == ("<think>", "</think>")
    assert [name for name, yes in can.items() if yes] == [
        *("reasoning", "usage", "finish reason", "chat, with a flag"),
        *("chat, asked in words", "tools", "schema"),
    ]
    assert "no such path" in found["text completion"].why
    said = _line(best, tags)
    assert "continues='flag', reasoning_tags=('<think>', '</think>')" in said
    assert "continues: flag" in said


@asynccontextmanager
async def one_at_a_time(*, stops):
    """A server that answers one request after another, and stops where its client goes, or does not."""
    lock, writers = asyncio.Lock(), set()

    async def serve(reader, writer):
        writers.add(asyncio.current_task())
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        size = int(head.split("content-length: ")[1].split("\r\n")[0])
        body = json.loads(await reader.readexactly(size))
        gone = asyncio.ensure_future(reader.read())
        async with lock:
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
            )
            for number in range(body["max_tokens"]):
                if stops and gone.done():
                    break
                await asyncio.sleep(0.01)
                writer.write(
                    b"data: %s\n\n" % json.dumps(frame({"content": f"{number} "})).encode()
                )
            writer.write(b"data: %s\n\n" % json.dumps(frame({}, "length")).encode())
            writer.write(b"data: [DONE]\n\n")
        gone.cancel()
        writer.close()
        writers.discard(asyncio.current_task())

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    finally:
        listening.close()
        if writers:
            await asyncio.wait(writers)


@pytest.mark.parametrize("stopping", [True, False])
async def test_whether_a_server_stops_is_seen_by_the_next_request(stopping):
    from streamval.commands.probing import stops

    async with one_at_a_time(stops=stopping) as url:
        found = await stops(OpenAIBackend("m", base_url=url))
    assert found.can is stopping, found.why


async def test_a_server_that_is_not_there_is_one_finding():
    best, can, _, found = await found_by("http://127.0.0.1:9/v1")
    assert (best, can) == (None, {"answers": False})
    assert "does not answer" in found["answers"].why
