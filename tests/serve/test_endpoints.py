"""Tests of `streamval.serve.endpoints`."""

import httpx
import pytest

from tests.support.gateway import ASK, gateway
from tests.support.openai_server import openai_server
from tests.support.upstream import upstream, words

LITELLM = """
upstreams: {{a: {{model: hosted_vllm/fine, api_base: "{url}"}}}}
models: {{plain: {{upstream: a}}}}
server: {{port: 0{server}}}
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
async def test_any_provider_that_litellm_knows():
    async with openai_server() as behind, gateway(behind.url, file=LITELLM) as serving:
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            body = {"model": "plain", "messages": ASK, "user": "Ann", "max_completion_tokens": 50}
            answer = await client.post(f"{serving.url}/v1/chat/completions", json=body)
            assert answer.json()["choices"][0]["message"]["content"].startswith("One is here.")
            body["tools"] = [{"type": "function", "function": {"name": "x"}}]
            answer = await client.post(f"{serving.url}/v1/chat/completions", json=body)
            assert answer.status_code == 400
    assert behind.requests[0].body["max_tokens"] == 50


async def test_a_redirect_takes_our_key_nowhere():
    async with upstream(words("All is well.")) as thief:
        redirect = (307, f"Location: {thief.url}/chat/completions", b"")
        async with upstream(redirect) as behind, gateway(behind.url) as serving:
            async with httpx.AsyncClient(trust_env=False) as client:
                body = {"model": "plain", "messages": ASK}
                answer = await client.post(f"{serving.url}/v1/chat/completions", json=body)
        assert answer.status_code == 502
        assert thief.requests == []


@pytest.mark.parametrize(
    "name", ["api_base", "base_url", "api_key", "extra_headers", "extra_body", "mock_response"]
)
async def test_a_client_does_not_say_where_litellm_goes(name):
    async with openai_server() as behind, gateway(behind.url, file=LITELLM) as serving:
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            body = {"model": "plain", "messages": ASK, name: "http://127.0.0.1:1"}
            answer = await client.post(f"{serving.url}/v1/chat/completions", json=body)
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == name
        assert behind.requests == []
