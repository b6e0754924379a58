"""The gateway behind the clients that people have: what each makes of an answer, a repair, a refusal, a break."""

import asyncio
import json
import os
from pathlib import Path

import openai
import pytest

from streamval.serve.exchange import REFUSAL
from tests.support.gateway import gateway
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


async def by_node(folder, url, client):
    process = await asyncio.create_subprocess_exec(
        *("node", "clients.mjs", f"{url}/v1", "careful", client),
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
            got = await by_node(folder, serving.url, "openai" if client == "openai-node" else "ai")
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
