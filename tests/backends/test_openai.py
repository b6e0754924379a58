"""Tests of `streamval.backends.openai`."""

import asyncio
from dataclasses import replace

import openai
import pytest
from pydantic import BaseModel

import streamval as sv
from streamval.errors import (
    AuthenticationError,
    BackendError,
    ConnectionFailedError,
    RefusedRequestError,
    StallError,
    StreamBrokenError,
    UsageError,
)
from tests.support.openai_server import FAILURES, openai_server

KEY = "sk-very-secret-key"
TEXT = "One is here. Two is here! Three is here. Four is here."

both = pytest.mark.parametrize("completion", ["chat", "text"])


@pytest.fixture
async def server():
    async with openai_server() as serving:
        yield serving


def backend(server, model, completion="chat", **params):
    return sv.OpenAIBackend(model, base_url=server.url, api_key=KEY, api=completion, **params)


@both
async def test_a_whole_answer_with_the_servers_own_count(server, completion):
    speaking = backend(server, "fine", completion, temperature=0.5, min_p=0.1, organization="us")
    result = await sv.Pipeline(speaking).run("Say it.", seed=3)
    assert result.text == TEXT
    assert result.usage == sv.types.Usage(7, 13, 0, 0, "backend")
    assert result.finish_reason == result.attempts[0].finish_reason == "stop"
    (served,) = server.requests
    assert served.body["temperature"] == 0.5
    assert served.body["seed"] == 3
    assert served.body["min_p"] == 0.1  # which the openai package does not know
    assert served.headers["authorization"] == f"Bearer {KEY}"
    assert served.headers["openai-organization"] == "us"


@both
@pytest.mark.parametrize(
    ("model", "error", "says"),
    [*FAILURES, ("echo-headers", RefusedRequestError, "failed: Error code: 400")],
)
async def test_each_way_to_fail_is_one_clear_error(server, completion, model, error, says):
    run = sv.Pipeline(backend(server, model, completion)).start("Go.")
    events = []
    run.subscribe(events.append)
    with pytest.raises(error, match=says) as raised:
        await run
    assert type(raised.value) is error
    assert KEY not in str(raised.value)
    assert "\n" not in str(raised.value)
    assert raised.value.__context__ is None  # where the key would still be
    assert not events[-1].success
    assert len(server.requests) == 1


@both
async def test_no_word_is_lost_behind_a_byte_order_mark(server, completion):
    """The reader of the `openai` package drops the first frame."""
    result = await sv.Pipeline(backend(server, "byte-order-mark", completion)).run("Say it.")
    assert result.text == TEXT


async def test_nobody_there():
    nobody = sv.OpenAIBackend("x", base_url="http://127.0.0.1:9/v1", api_key=KEY)
    with pytest.raises(ConnectionFailedError, match="check the network"):
        await sv.Pipeline(nobody).run("Go.")


async def test_no_key(server, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(AuthenticationError, match="pass api_key="):
        await sv.Pipeline(sv.OpenAIBackend("fine")).run("Go.")
    # A server of one's own mostly wants none.
    result = await sv.Pipeline(sv.OpenAIBackend("fine", base_url=server.url)).run("Go.")
    assert result.text == TEXT


async def test_a_refusal_is_no_success(server):
    result = await sv.Pipeline(backend(server, "refuses")).run("Go.")
    assert not result.success
    assert result.finish_reason == "refusal"
    assert result.failures[0].reason.startswith("the model refused: One is here.")


@both
async def test_after_a_fail_the_server_sees_the_disconnect(server, completion):
    calm = sv.stream_check(lambda text: not text.endswith("!"), "stay calm")
    result = await sv.Pipeline(backend(server, "endless", completion), requirements=[calm]).run(
        "Go"
    )
    assert result.text == "One is here."
    assert result.finish_reason is None
    (served,) = server.requests
    await asyncio.wait_for(served.disconnected.wait(), 60)
    assert not served.finished


async def test_a_client_of_ones_own_is_used_and_stays_open(server):
    async with openai.AsyncOpenAI(base_url=server.url, api_key=KEY, max_retries=0) as client:
        pipeline = sv.Pipeline(sv.OpenAIBackend("fine", client=client))
        assert (await pipeline.run("Go.")).text == TEXT
        assert (await pipeline.run("Go.")).text == TEXT
        assert not client.is_closed()
        with pytest.raises(UsageError, match="client= has its own api_key"):
            await pipeline.run("Go.", api_key="other")
        with pytest.raises(UsageError, match="client= has its own base_url"):
            sv.OpenAIBackend("fine", client=client, base_url=server.url)


async def test_a_client_that_is_not_the_users_is_closed(server, monkeypatch):
    made = []
    make = openai.AsyncOpenAI
    monkeypatch.setattr(
        openai, "AsyncOpenAI", lambda **given: made.append(make(**given)) or made[-1]
    )
    await sv.Pipeline(backend(server, "fine")).run("Go.")
    with pytest.raises(StreamBrokenError):
        await sv.Pipeline(backend(server, "dies")).run("Go.")
    assert [client.is_closed() for client in made] == [True, True]


async def test_a_run_may_go_to_another_address(server):
    elsewhere = sv.OpenAIBackend("fine", base_url="http://127.0.0.1:9/v1", api_key=KEY)
    result = await sv.Pipeline(elsewhere).run("Go.", api_base=server.url, api_key="another")
    assert result.text == TEXT
    assert server.requests[0].headers["authorization"] == "Bearer another"


@both
async def test_a_prefix_is_continued(server, completion):
    speaking = backend(server, "fine", completion, continues="message")
    async for _ in speaking.stream(replace(speaking.request("Say it."), prefix="One was")):
        pass
    body = server.requests[0].body
    if completion == "chat":
        assert body["messages"][-1] == {"role": "assistant", "content": "One was"}
    else:
        assert body["prompt"] == "Say it.One was"


class City(BaseModel):
    name: str


async def test_a_chat_is_asked_for_the_schema(server):
    await sv.Pipeline(backend(server, "fine"), format=City).run("A city.")
    asked = server.requests[0].body["response_format"]
    assert asked["json_schema"]["name"] == "City"


@pytest.mark.parametrize(
    "wrong", [{"model": " "}, {"model": "x", "api": "speech"}, {"model": "x", "temprature": 1}]
)
def test_wrong_arguments(wrong):
    with pytest.raises(UsageError):
        sv.OpenAIBackend(**wrong)


def test_wrong_options_are_refused_before_anything_is_asked():
    speaking = sv.OpenAIBackend("x")
    with pytest.raises(UsageError, match="did you mean 'max_tokens'"):
        sv.Pipeline(speaking).start("Go.", max_token=3)
    with pytest.raises(UsageError, match="did you mean 'temperature'"):
        sv.Pipeline(speaking, options={"temprature": 3})
    with pytest.raises(UsageError, match="several answers"):
        sv.Pipeline(speaking).start("Go.", n=2)


def test_its_key_is_not_shown():
    assert repr(sv.OpenAIBackend("x", api_key=KEY)) == "OpenAIBackend('x')"


@pytest.mark.parametrize("model", ["echo-headers", "bad-key"])
async def test_the_key_of_a_client_of_ones_own_is_not_shown(server, model):
    async with openai.AsyncOpenAI(
        base_url=server.url, api_key=KEY, max_retries=0, default_headers={"X-Gate": "open-sesame"}
    ) as client:
        with pytest.raises(BackendError) as raised:
            await sv.Pipeline(sv.OpenAIBackend(model, client=client)).run("Go.")
    assert KEY not in str(raised.value)
    assert "open-sesame" not in str(raised.value)
    assert "there is no key" not in str(raised.value)


async def test_a_runs_own_stall_timeout(server):
    with pytest.raises(StallError):
        await sv.Pipeline(backend(server, "stalls"), chunking="word").run("Go.", stall_timeout=0.2)
    assert "stall_timeout" not in server.requests[0].body
