"""Tests of `streamval.integrations.litellm_proxy`: LiteLLM's real proxy, before a model on a real socket.

The proxy needs other versions than the rest, so it has an environment of its own: `make test-clients`.
"""

import asyncio
import json
import os
import socket
from contextlib import asynccontextmanager

import httpx
import openai
import pytest
from litellm.exceptions import GuardrailRaisedException
from litellm.types.utils import ModelResponse

from streamval.integrations.litellm_proxy import JudgedGuardrail
from tests.support.upstream import frame, upstream, words

PROXY = os.environ.get("STREAMVAL_LITELLM")
"""The program of the proxy."""

CONFIG = """
model_list:
  - model_name: m
    litellm_params: {{model: openai/m, api_base: "{url}", api_key: "-"}}
guardrails:
  - guardrail_name: streamval
    litellm_params:
      guardrail: streamval.integrations.litellm_proxy.JudgedGuardrail
      mode: post_call
      default_on: true
      requirements: [{{forbidden_pattern: 'ghp_'}}, {{forbidden_words: [wombat]}}]
"""
SECRET = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


@pytest.mark.parametrize("wrong", [{"requirements": "no_secrets"}, {"requirements": ["no_secret"]}])
async def test_a_wrong_configuration_refuses_every_answer(wrong, caplog):
    guardrail = JudgedGuardrail(**wrong)
    assert "configured wrongly" in caplog.text
    with pytest.raises(GuardrailRaisedException, match="requirement"):
        await guardrail.async_post_call_success_hook({}, None, ModelResponse())
    with pytest.raises(GuardrailRaisedException, match="requirement"):
        async for _ in guardrail.async_post_call_streaming_iterator_hook(None, [], {}):
            pass


@asynccontextmanager
async def proxy(script, folder):
    """A client of a proxy before an upstream, and the upstream."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with upstream(script) as server:
        config = folder / "config.yaml"
        config.write_text(CONFIG.format(url=server.url))
        environment = {
            **os.environ,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_MASTER_KEY": "sk-1",
        }
        command = [PROXY, "--config", config, "--host", "127.0.0.1", "--port", str(port)]
        with (folder / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *map(str, command), env=environment, stdout=log, stderr=log
            )
        base = f"http://127.0.0.1:{port}"
        try:
            async with httpx.AsyncClient() as client:
                while process.returncode is None:
                    try:
                        if (await client.get(f"{base}/health/liveliness")).status_code == 200:
                            break
                    except httpx.TransportError:
                        await asyncio.sleep(0.3)
            assert process.returncode is None, (folder / "log").read_text()[-2000:]
            async with openai.AsyncOpenAI(
                base_url=f"{base}/v1", api_key="sk-1", max_retries=0
            ) as client:
                yield client, server
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()


def answer(body, number):
    """What the model says: its prompt tells it."""
    asked = body["messages"][-1]["content"]
    if asked == "call":
        arguments = '{"city": "Rome"}' if "fine" in str(body) else '{"city": 7}'
        call = {"index": 0, "id": "c1", "function": {"name": "weather", "arguments": arguments}}
        return [frame({"tool_calls": [call]}), frame({}, "tool_calls")]
    said = {
        "fine": words("One is here. Two is here."),
        "secret": [*words(f"One is here. The key is {SECRET}. "), *words("More. " * 50), "STALL"],
        "thinks": [frame({"reasoning_content": "A wombat. "}), *words("More. " * 50), "STALL"],
    }[asked]
    if body.get("stream"):
        return said
    text = "".join(one for one in said if isinstance(one, str) and one != "STALL")
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    whole = {
        "id": "w",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }
    return 200, "Content-Type: application/json", json.dumps(whole).encode()


@pytest.mark.skipif(PROXY is None, reason="LiteLLM's proxy is tried by `make test-clients`")
async def test_the_proxy_sends_what_has_passed(tmp_path):
    async with proxy(answer, tmp_path) as (client, server):

        async def said(prompt, **more):
            """All that a client sees of a stream, and its error."""
            seen, problem = [], None
            try:
                stream = await client.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": prompt}], stream=True, **more
                )
                async for chunk in stream:
                    seen.append(chunk)
            except openai.APIError as error:
                problem = error
            return seen, problem

        seen, problem = await said("fine")
        assert problem is None
        assert (
            "".join(c.choices[0].delta.content or "" for c in seen) == "One is here. Two is here."
        )
        assert seen[-1].choices[0].finish_reason == "stop"

        for prompt in ("secret", "thinks"):
            seen, problem = await said(prompt)
            everything = str(seen) + str(problem)
            assert problem is not None, seen
            assert SECRET not in everything
            assert "A wombat" not in everything
            await asyncio.wait_for(server.requests[-1].gone.wait(), 30)

        seen, problem = await said("call", tools=[WEATHER])
        assert "tools are called as they were declared" in str(problem)
        assert "weather" not in str(seen)

        ask = lambda prompt: client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": prompt}]
        )
        assert (await ask("fine")).choices[0].message.content == "One is here. Two is here."
        with pytest.raises(openai.BadRequestError) as refused:
            await ask("secret")
        assert SECRET not in str(refused.value)
