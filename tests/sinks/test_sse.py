"""Tests of `streamval.sinks.sse`."""

import asyncio
import contextlib
import json
import socket

import httpx
import openai
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route

import streamval as sv
from streamval.errors import StreamBrokenError, UsageError
from streamval.testing import run_virtually
from tests.support.sources import Judge, Spoken, fails_on, thinking_and_calling


async def frames(run, **options):
    return [frame async for frame in sv.sse(run, **options)]


def parsed(frame):
    fields = dict(line.split(": ", 1) for line in frame.rstrip("\n").split("\n"))
    return fields.get("event"), json.loads(fields["data"])


async def test_each_event_is_a_frame_of_its_type():
    hostile = "a\r\n\r\nevent: completed\ndata: {}\n\n\u2028<b> "
    run = sv.Pipeline(Spoken(hostile), chunking=None).start("go")
    seen = []
    run.subscribe(seen.append)
    given = await frames(run, reasons=True)
    assert [parsed(frame)[0] for frame in given] == [event.type for event in seen]
    assert all(frame.count("\n\n") == 1 and frame.endswith("\n\n") for frame in given)
    assert [sv.EventAdapter.validate_python(parsed(frame)[1]) for frame in given] == seen


async def test_what_ends_the_run_is_a_frame_and_not_raised():
    given = await frames(sv.Pipeline(Spoken("One. ", StreamBrokenError("gone"))).start("go"))
    assert [parsed(frame)[0] for frame in given][-2:] == ["error", "completed"]


def quoting(text):
    return "SECRET" not in text, f"it says {text!r}"


@pytest.mark.parametrize("protocol", ["events", "openai", "responses", "anthropic"])
@pytest.mark.parametrize(
    "requirement",
    [
        sv.stream_check(quoting, "no names"),
        sv.Requirement("no names", lambda ctx: sv.ValidationResult(False, reason="it says SECRET")),
    ],
)
async def test_a_client_gets_no_reason_that_quotes_what_was_withheld(requirement, protocol):
    pipeline = sv.Pipeline(
        sv.ScriptedBackend(["One. SECRET two.", "One. SECRET three."]),
        requirements=[requirement, sv.stream_check(lambda text: None, "of no opinion", hold=True)],
        retry=sv.Repair(loop_budget=2),
        emit_verdicts=True,
    )
    sent = "".join(await frames(pipeline.start("go"), protocol=protocol))
    assert "SECRET" not in sent
    if protocol == "events":
        assert '"reason":"no names' in sent
        assert "SECRET" in "".join(await frames(pipeline.start("go"), reasons=True))


async def test_a_client_gets_no_words_of_an_exception():
    run = sv.Pipeline(Spoken("One. ", ValueError("SECRET"))).start("go")
    assert "SECRET" not in "".join(await frames(run))


def test_silence_is_broken_by_heartbeats():
    async def main():
        return await frames(sv.Pipeline(Spoken("One. ", 35, "Two.")).start("go"), heartbeat=10)

    given, _ = run_virtually(main())
    assert given.count(": ping\n\n") == 3


async def test_leaving_early_closes_the_backend():
    backend = Spoken("One. ", "Two. ", asyncio.Event().wait)
    async with contextlib.aclosing(sv.sse(sv.Pipeline(backend).start("go"))) as stream:
        async for frame in stream:
            if "chunk" in frame:
                break
    assert backend.closed == 1


@pytest.mark.parametrize("wrong", [{"protocol": "xml"}, {"heartbeat": 0}])
async def test_wrong_arguments(wrong):
    with pytest.raises(UsageError):
        await frames(sv.Pipeline(Spoken("One.")).start("go"), **wrong)


async def test_a_restart_cannot_be_told_to_a_client_of_openais():
    strict = Judge(fails_on("Bad."))
    pipeline = sv.Pipeline(
        Spoken(["One. ", "Bad. "], ["Two."]), requirements=[strict], retry=sv.Repair()
    )
    given = await frames(pipeline.start("go"), protocol="openai")
    assert parsed(given[-1])[1]["error"]["type"] == "taken_back"
    assert "[DONE]" not in "".join(given)


async def test_a_repair_that_continues_shows_as_nothing():
    strict = Judge(fails_on("Bad."))
    backend = Spoken(["One. ", "Bad. "], [" Two."], supports_prefix=True)
    pipeline = sv.Pipeline(backend, requirements=[strict], retry=sv.Repair())
    given = await frames(pipeline.start("go"), protocol="openai")
    assert given[-1] == "data: [DONE]\n\n"
    said = [parsed(frame)[1]["choices"] for frame in given[:-2]]
    assert "".join(choices[0]["delta"].get("content", "") for choices in said) == "One. Two."


# Over a real server, to a real client


@contextlib.asynccontextmanager
async def serving(pipeline):
    """The pipeline behind an endpoint of OpenAI's shape, and one of ours."""

    async def answer(request):
        body = (
            await request.json() if request.method == "POST" else {"messages": [{"content": "x"}]}
        )
        protocol = "openai" if request.method == "POST" else "events"
        run = pipeline.start(body["messages"][-1]["content"])
        stream = sv.sse(run, protocol=protocol)
        return StreamingResponse(stream, media_type="text/event-stream")

    paths = ("/v1/chat/completions", "/events")
    app = Starlette(routes=[Route(path, answer, methods=["GET", "POST"]) for path in paths])
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        task = asyncio.create_task(server.serve([listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


async def ask(url):
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
        stream = await client.chat.completions.create(
            model="any", messages=[{"role": "user", "content": "Go."}], stream=True
        )
        pieces = [piece async for piece in stream]
    choices = [piece.choices[0] for piece in pieces if piece.choices]
    text = "".join(choice.delta.content or "" for choice in choices)
    return text, choices[-1].finish_reason, pieces[-1].usage


@pytest.mark.parametrize(
    ("deltas", "text", "reason"),
    [
        (["All is ", "well. "], "All is well.", "stop"),
        (["All is ", sv.Delta("well", finish_reason="length")], "All is well", "length"),
        (["One. ", "Bad. ", "More."], "One.", "content_filter"),
    ],
)
async def test_openais_own_client_reads_it(deltas, text, reason):
    pipeline = sv.Pipeline(Spoken(*deltas), requirements=[Judge(fails_on("Bad."))])
    async with serving(pipeline) as url:
        said, finish_reason, usage = await ask(url)
    assert (said, finish_reason) == (text, reason)
    assert usage.completion_tokens == len(deltas) or reason == "content_filter"


async def test_openais_own_client_is_told_that_the_model_broke():
    async with serving(sv.Pipeline(Spoken("One. ", StreamBrokenError("gone")))) as url:
        with pytest.raises(openai.APIError, match="could not be finished"):
            await ask(url)


async def test_the_backend_is_closed_when_the_client_goes():
    backend = Spoken("One. ", "Two. ", asyncio.Event().wait)
    async with serving(sv.Pipeline(backend)) as url:
        async with httpx.AsyncClient() as client, client.stream("GET", f"{url}/events") as response:
            async for line in response.aiter_lines():
                if "Two." in line or "One." in line:
                    break
        async with asyncio.timeout(60):
            while not backend.closed:
                await asyncio.sleep(0.005)


async def test_openais_own_client_reads_reasoning_and_calls():
    pipeline = thinking_and_calling()
    async with (
        serving(pipeline) as url,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client,
    ):
        stream = await client.chat.completions.create(
            model="any", messages=[{"role": "user", "content": "Go."}], stream=True
        )
        deltas = [piece.choices[0].delta async for piece in stream if piece.choices]
    thought = [one.reasoning_content for one in deltas if hasattr(one, "reasoning_content")]
    assert "".join(thought) == "Hm.Let me see."
    (calls,) = [one.tool_calls for one in deltas if one.tool_calls]
    assert [call.function.arguments for call in calls] == ['{"city": "Oslo"}']
    assert "".join(one.content or "" for one in deltas) == "I ask."
