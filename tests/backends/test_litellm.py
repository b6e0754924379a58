"""Tests of `streamval.backends.litellm`."""

import asyncio
import json
import subprocess
import sys
from contextlib import suppress

import pytest
from pydantic import BaseModel, Field

import streamval as sv
from streamval.errors import (
    BackendError,
    ConnectionFailedError,
    RateLimitError,
    StallError,
    UnknownModelError,
    UsageError,
)
from tests.support.openai_server import FAILURES, openai_server
from tests.support.sources import types

pytestmark = [
    # LiteLLM's own: it validates its pydantic models against what it has set on them.
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.parametrize("kind", ["openai", "text-completion-openai"], ids=["chat", "text"]),
]

KEY = "sk-very-secret-key"


@pytest.fixture
async def server():
    async with openai_server() as serving:
        yield serving


def backend(server, kind, model, **params):
    return sv.LiteLLMBackend(f"{kind}/{model}", api_base=server.url, api_key=KEY, **params)


async def broken(pipeline):
    """The exception that ends a run, and the events."""
    events = []
    run = pipeline.start("Say something.")
    run.subscribe(events.append)
    with pytest.raises(sv.StreamvalError) as raised:
        await run
    assert types(events)[-2:] == ["error", "completed"]
    assert not events[-1].success
    return raised.value, events


async def test_a_whole_answer_with_the_providers_own_count(server, kind):
    result = await sv.Pipeline(backend(server, kind, "fine", temperature=0.5)).run("Say it.")
    assert result.text == "One is here. Two is here! Three is here. Four is here."
    assert result.usage == sv.types.Usage(7, 13, 0, 0, "backend")
    (served,) = server.requests
    assert served.body["temperature"] == 0.5
    assert served.finished
    if kind == "openai":
        assert served.path == "/v1/chat/completions"
        assert served.body["messages"] == [{"role": "user", "content": "Say it."}]
    else:
        assert served.path == "/v1/completions"
        assert served.body["prompt"] == "Say it."


async def test_after_a_fail_the_server_sees_the_disconnect_and_sends_no_more(server, kind):
    calm = sv.stream_check(lambda text: not text.endswith("!"), "stay calm")
    result = await sv.Pipeline(backend(server, kind, "endless"), requirements=[calm]).run("Go.")
    assert result.text == "One is here."
    (served,) = server.requests
    await asyncio.wait_for(served.disconnected.wait(), 60)
    sent = served.sent
    await asyncio.sleep(0.1)
    assert served.sent == sent < 100
    assert not served.finished


async def test_cancelling_the_task_disconnects_before_control_returns(server, kind):
    async def drive():
        await sv.Pipeline(backend(server, kind, "endless")).run("Go.")

    task = asyncio.create_task(drive())
    while not server.requests or server.requests[0].sent < 3:
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(server.requests[0].disconnected.wait(), 60)


@pytest.mark.parametrize(("model", "error", "says"), FAILURES)
async def test_each_way_to_fail_is_one_clear_error(server, kind, model, error, says):
    raised, events = await broken(sv.Pipeline(backend(server, kind, model)))
    assert type(raised) is error
    assert says in str(raised)
    assert "\n" not in str(raised)
    assert KEY not in str(events)
    assert len(server.requests) == 1  # nothing is retried behind the user's back


async def test_a_stream_that_stalls_is_an_error_and_disconnects(server, kind):
    raised, _ = await broken(
        sv.Pipeline(backend(server, kind, "stalls"), chunking="word", stall_timeout=0.3)
    )
    assert type(raised) is StallError
    await asyncio.wait_for(server.requests[0].disconnected.wait(), 60)


async def test_nobody_there(server, kind):
    nobody = sv.LiteLLMBackend(f"{kind}/x", api_base="http://127.0.0.1:9/v1", api_key=KEY)
    raised, _ = await broken(sv.Pipeline(nobody))
    assert type(raised) is ConnectionFailedError
    assert "api_base" in str(raised)


async def test_a_prefix_is_continued(server, kind):
    from dataclasses import replace

    speaking = backend(server, kind, "fine", supports_prefix=True)
    request = replace(speaking.request("Say it."), prefix="One was")
    async for _ in speaking.stream(request):
        pass
    body = server.requests[0].body
    if kind == "openai":
        assert body["messages"][-1]["role"] == "assistant"
        assert body["messages"][-1]["content"] == "One was"
    else:
        assert body["prompt"] == "Say it.One was"


def test_keys_are_not_shown(kind):
    shy = sv.LiteLLMBackend(f"{kind}/x", api_key=KEY, extra_headers={"X-Api-Key": KEY + "2"})
    assert KEY not in repr(shy)
    assert KEY not in str(shy.options)
    assert KEY not in repr(shy.request("Hi", api_key=KEY, extra_headers={"Authorization": KEY}))


async def test_a_refusal_is_no_success(server, kind):
    if kind != "openai":
        pytest.skip("text completions have no refusals")
    result = await sv.Pipeline(backend(server, kind, "refuses")).run("Go.")
    assert not result.success
    assert result.finish_reason == "refusal"
    assert result.failures[0].reason.startswith("the model refused: One is here.")


async def test_a_content_filter_is_no_success_and_a_limit_is_told(server, kind):
    cut = await sv.Pipeline(backend(server, kind, "content_filter")).run("Go.")
    assert (cut.success, cut.finish_reason) == (False, "content_filter")
    assert cut.failures[0].reason == "the provider's content filter cut it off"
    pipeline = sv.Pipeline(backend(server, kind, "length"))
    short = await pipeline.run("Go.")
    assert (short.success, short.finish_reason) == (True, "length")
    unfinished = await sv.Pipeline(pipeline.backend, requirements=[sv.finished()]).run("Go.")
    assert not unfinished.success


async def test_no_echoed_key_is_shown(server, kind):
    asked = {"api_key": "another-key-77", "extra_headers": {"X-Gate": "open-sesame-88"}}
    pipeline = sv.Pipeline(backend(server, kind, "echo-headers"), options=asked)
    raised, events = await broken(pipeline)
    for key in (KEY, *("another-key-77", "open-sesame-88")):
        assert key not in str(raised) + str(events) + repr(raised.__context__)
    assert "***" in str(raised)
    assert server.requests[0].headers["x-gate"] == "open-sesame-88"


@pytest.mark.parametrize("wrong", [{"model": ""}, {"model": "x", "completion": "speech"}])
def test_wrong_arguments(kind, wrong):
    with pytest.raises(UsageError):
        sv.LiteLLMBackend(**wrong)


async def test_a_name_without_a_provider_is_told(kind):
    raised, _ = await broken(sv.Pipeline("nosuchmodel"))
    assert type(raised) is UnknownModelError
    assert "provider/model" in str(raised)


def test_a_string_for_a_backend_is_a_litellm_model(kind, monkeypatch):
    assert isinstance(sv.Pipeline(f"{kind}/x").backend, sv.LiteLLMBackend)
    monkeypatch.setenv("STREAMVAL_MODEL", f"{kind}/y")
    assert sv.Pipeline().backend.model == f"{kind}/y"


def test_importing_streamval_and_building_a_pipeline_does_not_import_litellm(kind):
    code = (
        "import sys, json, streamval as sv; sv.Pipeline(sv.ScriptedBackend('x'));"
        "print(json.dumps([m for m in ('litellm', 'rich', 'typer', 'httpx') if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert json.loads(done.stdout) == []


class City(BaseModel):
    name: str
    people: int = Field(ge=0)


async def test_it_is_asked_for_the_schema(server, kind):
    await sv.Pipeline(backend(server, kind, "fine"), format=City).run("A city.")
    (served,) = server.requests
    if kind != "openai":  # text completions know no schema: the output is checked all the same
        assert "response_format" not in served.body
        return
    asked = served.body["response_format"]
    assert asked["json_schema"]["name"] == "City"
    assert asked["json_schema"]["schema"]["properties"]["people"]["minimum"] == 0


async def test_a_client_of_our_own_is_closed_whatever_comes_of_it(server, kind, monkeypatch):
    import openai

    made = []
    make = openai.AsyncOpenAI
    monkeypatch.setattr(
        openai, "AsyncOpenAI", lambda **given: made.append(make(**given)) or made[-1]
    )
    for model in ("fine", "dies", "bad-key"):
        with suppress(BackendError):
            await sv.Pipeline(backend(server, kind, model)).run("go")
    ours = [client for client in made if client.max_retries == 0]
    assert len(ours) == (3 if kind == "text-completion-openai" else 0)
    assert all(client.is_closed() for client in ours)


async def test_several_answers_are_refused(server, kind):
    with pytest.raises(UsageError, match="n=2 asks for several answers"):
        backend(server, kind, "fine", n=2)
    with pytest.raises(UsageError, match="n=3 asks for several answers"):
        await sv.Pipeline(backend(server, kind, "fine")).run("go", n=3)
    assert server.requests == []


async def test_max_retries_are_made(server, kind):
    with pytest.raises(RateLimitError):
        await sv.Pipeline(backend(server, kind, "busy", max_retries=1)).run("go")
    assert len(server.requests) == 2
