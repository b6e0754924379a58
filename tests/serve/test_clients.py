"""The gateway behind the clients that people have: what each makes of an answer, a repair, a refusal, a break."""

import asyncio
import json
import os
from pathlib import Path
from typing import Annotated, Literal

import openai
import pytest
from pydantic import BaseModel, Field

from streamval.serve.exchange import REFUSAL
from tests.support.gateway import ASK, client_of, gateway
from tests.support.node_clients import NoNode, installed
from tests.support.upstream import frame, upstream, words

BUILT = Path(__file__).parents[2] / "build/node"
BAD = "One is fine. Two is forbidden here. Three is fine."
GOOD = "One is fine. Two is good. Three is \U0001f600 fine."


def repaired(body, before):
    goes_on = body["messages"][-1]["role"] == "assistant"
    return words(" Two is good. Three is \U0001f600 fine.") if goes_on else words(BAD)


def refused(body, before):
    goes_on = body["messages"][-1]["role"] == "assistant"
    return words(" Two is forbidden again. Three.") if goes_on else words(BAD)


SCRIPTS = {
    "valid": lambda *_: words(GOOD),
    "repaired": repaired,
    "refused": refused,
    "length": lambda *_: [*words("One is fine. Two"), frame({}, "length")],
    "breaks": lambda *_: [*words("One is fine. Two is too. And so on."), "RESET"],
    "busy": lambda *_: (429, "Retry-After: 1", b'{"error": {"message": "slow"}}'),
}


@pytest.fixture(scope="session")
def node_clients():
    """The folder in which the JavaScript clients are installed. Skipped without npm, but not in CI."""
    try:
        return installed(BUILT)
    except NoNode as problem:
        (pytest.fail if os.environ.get("STREAMVAL_INSIST") else pytest.skip)(str(problem))


async def by_node(folder, *arguments):
    process = await asyncio.create_subprocess_exec(
        *("node", *arguments),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return json.loads(out.decode().splitlines()[-1])


async def by_langchain(url):
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(
        base_url=f"{url}/v1", api_key="x", model="careful", max_retries=0, stream_usage=True
    )
    text, reason, tokens = "", None, None
    try:
        async for chunk in model.astream("Say it."):
            text += chunk.text
            reason = chunk.response_metadata.get("finish_reason") or reason
            tokens = (chunk.usage_metadata or {}).get("output_tokens") or tokens
    except openai.APIError as error:
        return {"error": type(error).__name__, "message": str(error)}
    return {"text": text, "reason": reason, "tokens": tokens}


async def by_litellm(url):
    import litellm

    text, reason, tokens = "", None, None
    try:
        stream = await litellm.acompletion(
            model="openai/careful",
            api_base=f"{url}/v1",
            api_key="x",
            messages=[{"role": "user", "content": "Say it."}],
            stream=True,
            stream_options={"include_usage": True},
            max_retries=0,
        )
        async for chunk in stream:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                reason = choice.finish_reason or reason
            tokens = getattr(getattr(chunk, "usage", None), "completion_tokens", None) or tokens
    except openai.APIError as error:
        return {"error": type(error).__name__, "message": str(error)}
    return {"text": text, "reason": reason, "tokens": tokens}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.filterwarnings("ignore:Item .* on TypedDict class")
@pytest.mark.parametrize("script", list(SCRIPTS))
@pytest.mark.parametrize("client", ["openai-node", "AI SDK", "langchain", "litellm"])
async def test_what_each_client_makes_of_it(request, client, script):
    folder = None
    if client in ("openai-node", "AI SDK"):
        folder = request.getfixturevalue("node_clients")
    async with upstream(SCRIPTS[script]) as behind, gateway(behind.url) as serving:
        if folder is not None:
            name = "openai" if client == "openai-node" else "ai"
            got = await by_node(folder, "clients.mjs", f"{serving.url}/v1", "careful", name)
        elif client == "langchain":
            got = await by_langchain(serving.url)
        else:
            got = await by_litellm(serving.url)
    if script in ("breaks", "busy"):
        assert "error" in got, got
        return
    assert "error" not in got, got
    text, reason = {
        "valid": (GOOD, "stop"),
        "repaired": (GOOD, "stop"),
        "refused": ("One is fine.", "content_filter"),
        "length": ("One is fine. Two", "length"),
    }[script]
    if client == "AI SDK" and script == "refused":
        text += REFUSAL  # it shows a refusal as text
    assert got["text"] == text
    assert got["reason"].replace("-", "_") == reason  # the AI SDK's spelling
    assert got["tokens"] > 0
    if client == "openai-node":
        assert got["whole"] == text
        assert got["refusal"] == (REFUSAL if script == "refused" else None)


class Tree(BaseModel):
    name: str
    children: list["Tree"]


class Circle(BaseModel):
    kind: Literal["circle"]
    radius: float


class Square(BaseModel):
    kind: Literal["square"]
    side: float


class Rooted(BaseModel):
    root: Tree


class Pair(BaseModel):
    pair: tuple[int, str]


class Either(BaseModel):
    one: Circle | int | None


class Drawing(BaseModel):
    shape: Annotated[Circle | Square, Field(discriminator="kind")]


SCHEMAS = {
    "recursive": (
        Rooted,
        {"root": {"name": "a", "children": [{"name": "b", "children": []}]}},
        '{"root": {"name": "a", "children": [{"name": 7',
    ),
    "tuple": (Pair, {"pair": [1, "a"]}, '{"pair": [1, 2'),
    "union": (
        Either,
        {"one": {"kind": "circle", "radius": 2.5}},
        '{"one": {"kind": "circle", "radius": "wide"',
    ),
    "discriminated": (
        Drawing,
        {"shape": {"kind": "square", "side": 2.5}},
        '{"shape": {"kind": "square", "side": "wide"',
    ),
}
"""A type, a valid value, and the beginning of JSON that no continuation could make valid."""


def saying(text, *, ends=True):
    """An upstream's script: a text in pieces, as a call if there is a tool, and perhaps no end.

    A call ends always: it is judged when it is complete.
    """
    pieces = [text[at : at + 4] for at in range(0, len(text), 4)]

    def script(body, _):
        if not (tools := body.get("tools")):
            return [*pieces, *([] if ends else [", ", "STALL"])]
        name = tools[0]["function"]["name"]
        first = {"index": 0, "id": "c", "function": {"name": name, "arguments": ""}}
        calls = [first, *({"index": 0, "function": {"arguments": piece}} for piece in pieces)]
        return [*(frame({"tool_calls": [call]}) for call in calls), frame({}, "tool_calls")]

    return script


async def all_cut(behind):
    """Wait until the client of each answer is gone; a call comes to its end."""
    for served in behind.requests:
        if "tools" not in served.body:
            await served.gone.wait()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("schema", list(SCHEMAS))
async def test_openai_parses_what_is_valid_and_hears_early_of_what_is_not(schema, stream):
    wanted, valid, invalid = SCHEMAS[schema]

    async def parsed(client, model):
        asked = {"model": model, "messages": ASK, "response_format": wanted}
        if not stream:
            whole = await client.chat.completions.parse(**asked)
            return whole.choices[0].message.parsed
        async with client.chat.completions.stream(**asked) as streamed:
            return (await streamed.get_final_completion()).choices[0].message.parsed

    async with (
        upstream(saying(json.dumps(valid))) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        assert await parsed(client, "plain") == wanted.model_validate(valid)
    async with (
        upstream(saying(invalid, ends=False)) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        with pytest.raises(openai.ContentFilterFinishReasonError):
            await parsed(client, "plain")
        with pytest.raises(openai.BadRequestError, match="withheld"):
            await parsed(client, "strict")
        await all_cut(behind)


@pytest.mark.parametrize("mode", ["JSON_SCHEMA", "TOOLS"])
@pytest.mark.parametrize("schema", list(SCHEMAS))
async def test_instructor_gets_what_is_valid_and_hears_early_of_what_is_not(schema, mode):
    instructor = pytest.importorskip(
        "instructor"
    )  # which needs an older Rich and jiter than we lock
    from instructor.core.exceptions import InstructorRetryException

    wanted, valid, invalid = SCHEMAS[schema]

    async def made(serving, model):
        async with client_of(serving) as client:
            asking = instructor.from_openai(client, mode=instructor.Mode[mode])
            return await asking.chat.completions.create(
                model=model, messages=ASK, response_model=wanted, max_retries=0
            )

    async with upstream(saying(json.dumps(valid))) as behind, gateway(behind.url) as serving:
        assert (await made(serving, "plain")).model_dump(mode="json") == valid
    async with upstream(saying(invalid, ends=False)) as behind, gateway(behind.url) as serving:
        for model in ("plain", "strict"):
            with pytest.raises(InstructorRetryException) as raised:
                await made(serving, model)
            if model == "strict":
                assert "withheld" in str(raised.value)
        await all_cut(behind)


OF_ZOD = {name: (valid, invalid) for name, (_, valid, invalid) in SCHEMAS.items()} | {
    "any": ({"anything": [{"a": None}], "count": 1}, '{"anything": [{"a": null}], "count": "m"')
}


@pytest.mark.parametrize("schema", list(OF_ZOD))
async def test_the_ai_sdk_gets_what_is_valid_by_zod_and_hears_early_of_what_is_not(
    node_clients, schema
):
    valid, invalid = OF_ZOD[schema]

    async def got(serving, model):
        return await by_node(node_clients, "schemas.mjs", f"{serving.url}/v1", model, schema)

    async with upstream(saying(json.dumps(valid))) as behind, gateway(behind.url) as serving:
        said = await got(serving, "plain")
        assert said == {way: {"object": valid} for way in ("whole", "streamed", "called")}
    async with upstream(saying(invalid, ends=False)) as behind, gateway(behind.url) as serving:
        said = await got(serving, "plain")
        for way in ("whole", "streamed"):
            assert said[way]["error"] == "AI_NoObjectGeneratedError"
            assert said[way]["reason"] == "content-filter"
        assert said["called"]["message"] == REFUSAL
        for error in (await got(serving, "strict")).values():
            assert (error["error"], error["message"]) == ("AI_APICallError", REFUSAL)
        await all_cut(behind)
