"""Tests of `streamval.backends.continuing`: what is sent, and one real server that continues."""

from contextlib import suppress
from dataclasses import replace

import httpx
import pytest

import streamval as sv
from streamval.errors import StreamvalError, UsageError
from tests.support.openai_server import openai_server

PREFIX = "One, two,"

# As the test of LiteLLM says.
quiet = [
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Item .* on TypedDict class"),
]


async def sent(backend, server):
    request = replace(backend.request("Count."), prefix=PREFIX)
    with suppress(StreamvalError):
        async for _ in backend.stream(request):
            pass
    return server.requests[-1].body


@pytest.mark.parametrize(
    ("model", "last", "more"),
    [
        ("mistral/fine", {"prefix": True}, {}),
        ("deepseek/fine", {"prefix": True}, {}),
        ("hosted_vllm/fine", {}, {"continue_final_message": True, "add_generation_prompt": False}),
        ("openrouter/anthropic/claude-3.5-sonnet", {}, {}),
        ("ollama_chat/fine", {}, {}),
        ("anthropic/claude-sonnet-4-5", {}, {}),
    ],
)
async def test_litellm_sends_what_each_provider_needs(model, last, more):
    async with openai_server() as server:
        base = server.url.removesuffix("/v1") if model.startswith("anthropic") else server.url
        backend = sv.LiteLLMBackend(model, api_base=base, api_key="k")
        assert backend.supports_prefix
        body = await sent(backend, server)
    message = body["messages"][-1]
    assert message["role"] == "assistant"
    assert PREFIX in str(message["content"])
    assert message.get("prefix") == last.get("prefix")
    assert {name: body.get(name) for name in more} == more


test_litellm_sends_what_each_provider_needs.pytestmark += quiet


@pytest.mark.parametrize("model", ["openai/gpt-4o-mini", "groq/llama-3.3-70b-versatile"])
def test_a_model_that_is_not_known_to_continue_does_not(model):
    assert not sv.LiteLLMBackend(model, api_key="k").supports_prefix


@pytest.mark.parametrize(
    ("way", "flag", "more"), [("message", None, None), ("flag", True, None), ("vllm", None, True)]
)
async def test_the_openai_backend_sends_what_it_is_told(way, flag, more):
    async with openai_server() as server:
        backend = sv.OpenAIBackend("fine", base_url=server.url, api_key="k", continues=way)
        body = await sent(backend, server)
    assert body["messages"][-1].get("prefix") == flag
    assert body.get("continue_final_message") == more
    with pytest.raises(UsageError, match="continues must be"):
        sv.OpenAIBackend("x", continues="somehow")


@pytest.mark.local_model
async def test_llama_cpp_continues_the_last_message(local_backend):
    """The real server: its prompt ends where the prefix does, and what it says follows it."""
    address = await local_backend.address()
    messages = [{"role": "user", "content": "Count."}, {"role": "assistant", "content": PREFIX}]
    keyed = {"Authorization": f"Bearer {local_backend.key}"}
    async with httpx.AsyncClient(base_url=address, headers=keyed) as client:
        applied = (await client.post("/apply-template", json={"messages": messages})).json()
    assert applied["prompt"].endswith(PREFIX)
    backend = sv.OpenAIBackend(
        "gemma",
        base_url=f"{address}/v1",
        api_key=local_backend.key,
        continues="message",
        temperature=0,
        max_tokens=12,
    )
    request = replace(backend.request("Count to ten."), prefix=PREFIX)
    said = "".join([delta.text async for delta in backend.stream(request)])
    assert said
    assert not said.lstrip().startswith("One, two")
