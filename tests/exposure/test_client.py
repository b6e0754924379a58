"""Tests of `streamval.exposure.client`: each protocol, streamed and not, before a server that answers by a script."""

import json

import httpx
import pytest

from streamval.errors import StreamBrokenError
from streamval.exposure.client import PATHS, Endpoint, ask, body_for
from streamval.exposure.planted import all_cases
from streamval.types.messages import ToolCall
from streamval.types.results import Usage
from streamval.wire.answers import Answer, frames
from streamval.wire.protocols import WRITERS
from streamval.wire.sse import frame

TOOL_CASE = next(n for n, case in enumerate(all_cases()) if case.place == "tool")
JSON_CASE = next(n for n, case in enumerate(all_cases()) if case.place == "json")
ENDPOINT = Endpoint("http://test/v1", "m", "typed", "k")
CALL = ToolCall(0, "call_1", "note", {"text": "Write."}, '{"text": "Write."}')


def client_for(content, status=200):
    def answer(request):
        assert request.headers["authorization"] == "Bearer k"
        return httpx.Response(status, content=content)

    return httpx.AsyncClient(transport=httpx.MockTransport(answer))


def stream_of(protocol, reason="stop"):
    writer = WRITERS[protocol]("r", "m", 0, {})
    contents = [
        *writer.begin(),
        *writer.reasoning("Think. "),
        *writer.text("Say. "),
        *writer.tool_calls([CALL]),
        *writer.end(reason, Usage()),
    ]
    return (frames(contents) + writer.terminator).encode()


@pytest.mark.parametrize("protocol", PATHS)
@pytest.mark.parametrize(
    ("reason", "end"),
    [("stop", "stop"), ("content_filter", "content_filter"), ("length", "length")],
)
async def test_a_stream_is_read(protocol, reason, end):
    async with client_for(stream_of(protocol, reason)) as client:
        seen = await ask(client, ENDPOINT, protocol, 0, streamed=True)
    assert seen.text == 'Think. Say. {"text": "Write."}'
    assert seen.end in ((end, "tool_calls") if end == "stop" else (end,))
    assert 0 < seen.first <= seen.seconds


@pytest.mark.parametrize("protocol", PATHS)
async def test_a_whole_answer_is_read(protocol):
    whole = WRITERS[protocol]("r", "m", 0, {}).whole(
        Answer("Say.", "stop", reasoning="Think.", calls=[CALL])
    )
    async with client_for(json.dumps(whole)) as client:
        seen = await ask(client, ENDPOINT, protocol, 0, streamed=False)
    for said in ("Say.", "Think.", "Write."):
        assert said in seen.text
    assert seen.end in ("stop", "tool_calls")


@pytest.mark.parametrize(
    ("content", "end"),
    [
        (b"", "torn"),
        (frame({"choices": [{"delta": {"content": "Hi"}}]}).encode(), "torn"),
        (frame({"error": {"message": "no"}}).encode(), "error"),
        (b"data: [DONE]\n\n", "done"),
        (b"data: {nothing\n\n", "torn"),
        (b"data: [1]\n\n", "torn"),
    ],
)
async def test_broken_streams(content, end):
    async with client_for(content) as client:
        seen = await ask(client, ENDPOINT, "chat", 0, streamed=True)
    assert seen.end == end


@pytest.mark.parametrize("content", [b"", b"[]", b'{"choices": []}', b'{"content": 3}', b"null"])
async def test_broken_answers(content):
    async with client_for(content) as client:
        seen = await ask(client, ENDPOINT, "chat", 0, streamed=False)
    assert seen.end == "torn"


async def test_a_status_is_an_error():
    async with client_for(b"{}", 429) as client:
        seen = await ask(client, ENDPOINT, "messages", 0, streamed=True)
    assert seen.end == "error 429"


async def test_an_endpoint_that_is_not_there():
    async with httpx.AsyncClient(trust_env=False) as client:
        with pytest.raises(StreamBrokenError, match="cannot be reached"):
            await ask(client, Endpoint("http://127.0.0.1:9/v1", "m", "m"), "chat", 0, streamed=True)


@pytest.mark.parametrize("protocol", PATHS)
def test_what_is_asked(protocol):
    tools = body_for(ENDPOINT, protocol, TOOL_CASE, streamed=True)["tools"]
    assert "note" in json.dumps(tools)
    typed = body_for(ENDPOINT, protocol, JSON_CASE, streamed=False)
    assert typed["model"] == "typed"
    assert typed["stream"] is False
    assert "json_schema" in json.dumps(typed)
