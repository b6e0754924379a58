"""The gateway in the protocols of Responses and Messages, before the libraries that speak them and a chat upstream."""

import asyncio

import agents
import anthropic
import httpx
import openai
import pytest
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from streamval.serve.exchange import REFUSAL
from tests.integrations.test_tool_loops import DONE, TOOLS
from tests.serve.test_clients import SCRIPTS
from tests.support.gateway import ASK, gateway
from tests.support.providers import ANSWER, FAULTS, QUESTION, SECRET, provider
from tests.support.upstream import upstream, words

agents.set_tracing_disabled(True)
SAID = {
    "valid": "One is fine. Two is good. Three is \U0001f600 fine.",
    "repaired": "One is fine. Two is good. Three is \U0001f600 fine.",
    "refused": "One is fine.",
    "length": "One is fine. Two",
}

FILE = """
upstreams:
  main: {{model: openai/m, api_base: "{url}"}}
models:
  m:
    upstream: main
    requirements: [no_secrets, {{no_loop: {{on: [text, reasoning]}}}}]
    repair: {{loop_budget: 2, mode: restart}}
    release: all
    reasoning: deliver
server: {{port: 0{server}}}
"""


@pytest.fixture(autouse=True)
def nothing_done():
    DONE.clear()


async def by_responses(url, *, stream):
    """(text, status, why, refusal, output tokens) by the `openai` package."""
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        if stream:
            said, last = "", None
            async for event in await client.responses.create(
                model="careful", input="Say it.", stream=True
            ):
                said += event.delta if event.type == "response.output_text.delta" else ""
                last = event
            whole = last.response
            if whole.status == "failed":
                raise openai.APIError(whole.error.message, None, body=None)
            assert whole.output_text == said
        else:
            whole = await client.responses.create(model="careful", input="Say it.")
    why = whole.incomplete_details and whole.incomplete_details.reason
    parts = [part for item in whole.output for part in item.content]
    refusals = [part.refusal for part in parts if part.type == "refusal"]
    return whole.output_text, whole.status, why, refusals, whole.usage.output_tokens


async def by_messages(url, *, stream):
    """(text, stop reason, output tokens) by the `anthropic` package."""
    asked = {"model": "careful", "max_tokens": 99, "messages": ASK}
    async with anthropic.AsyncAnthropic(base_url=url, api_key="x", max_retries=0) as client:
        if stream:
            async with client.messages.stream(**asked) as events:
                async for _ in events:
                    pass
                whole = await events.get_final_message()
        else:
            whole = await client.messages.create(**asked)
    said = "".join(block.text for block in whole.content)
    return said, whole.stop_reason, whole.usage.output_tokens


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("script", SAID)
async def test_responses(script, stream):
    async with upstream(SCRIPTS[script]) as behind, gateway(behind.url) as serving:
        said, status, why, refusals, tokens = await by_responses(serving.url, stream=stream)
    assert said == SAID[script]
    assert (status, why) == {
        "refused": ("incomplete", "content_filter"),
        "length": ("incomplete", "max_output_tokens"),
    }.get(script, ("completed", None))
    assert refusals == ([REFUSAL] if script == "refused" else [])
    assert tokens > 0


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("script", SAID)
async def test_messages(script, stream):
    async with upstream(SCRIPTS[script]) as behind, gateway(behind.url) as serving:
        said, reason, tokens = await by_messages(serving.url, stream=stream)
    assert said == SAID[script] + (REFUSAL if script == "refused" else "")
    assert reason == {"refused": "refusal", "length": "max_tokens"}.get(script, "end_turn")
    assert tokens > 0


@pytest.mark.parametrize("stream", [True, False])
async def test_an_upstream_that_breaks_off_or_is_busy_is_an_error_of_the_protocol(stream):
    async with upstream(SCRIPTS["breaks"]) as behind, gateway(behind.url) as serving:
        if stream:
            with pytest.raises(openai.APIError):
                await by_responses(serving.url, stream=True)
        else:
            with pytest.raises(openai.InternalServerError):
                await by_responses(serving.url, stream=False)
        with pytest.raises(anthropic.APIStatusError):
            await by_messages(serving.url, stream=stream)
    async with upstream(SCRIPTS["busy"]) as behind, gateway(behind.url) as serving:
        with pytest.raises(openai.RateLimitError):
            await by_responses(serving.url, stream=stream)
        with pytest.raises(anthropic.RateLimitError):
            await by_messages(serving.url, stream=stream)


async def test_errors_and_keys_are_those_of_the_protocol():
    key = "a-key-of-a-client"
    async with upstream([]) as behind, gateway(behind.url, server=f", keys: [{key}]") as serving:
        asked = {"model": "none", "max_tokens": 9, "messages": ASK}
        async with anthropic.AsyncAnthropic(base_url=serving.url, api_key=key) as client:
            with pytest.raises(anthropic.NotFoundError, match="there is no model 'none'"):
                await client.messages.create(**asked)
        async with anthropic.AsyncAnthropic(base_url=serving.url, api_key="wrong") as client:
            with pytest.raises(anthropic.AuthenticationError):
                await client.messages.create(**asked)
        async with httpx.AsyncClient(base_url=serving.url, trust_env=False) as client:
            headers = {"authorization": f"Bearer {key}"}
            for path, status in (("/v1/models/none", 404), ("/v1/none", 404)):
                answer = await client.get(path, headers=headers)
                assert (answer.status_code, bool(answer.json()["error"])) == (status, True)
            assert (await client.get("/v1/messages")).json()["error"]
            found = await client.get("/v1/models/careful", headers=headers)
            assert found.json()["id"] == "careful"


# Agents, whose default is one of these protocols, through the gateway, before a model that demands its reasoning back


async def by_agents(url):
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        tools = [agents.function_tool(tool, strict_mode=False) for tool in TOOLS.values()]
        model = agents.OpenAIResponsesModel("m", client)
        run = agents.Runner.run_streamed(agents.Agent("a", model=model, tools=tools), QUESTION)
        async for _ in run.stream_events():
            pass
        return run.final_output


async def by_pydantic_ai(url):
    async with anthropic.AsyncAnthropic(base_url=url, api_key="x", max_retries=0) as client:
        model = AnthropicModel("m", provider=AnthropicProvider(anthropic_client=client))
        agent = Agent(model, tools=list(TOOLS.values()))
        async with agent.run_stream_events(QUESTION) as events:
            ends = [event async for event in events if event.event_kind == "agent_run_result"]
        return ends[0].result.output


@pytest.mark.parametrize("fault", [None, *FAULTS])
@pytest.mark.parametrize("client", [by_agents, by_pydantic_ai])
async def test_a_tool_loop_of_three_turns(client, fault):
    async with (
        provider("deepseek", fault=FAULTS.get(fault), size=11) as one,
        gateway(one.url, file=FILE) as serving,
    ):
        answer = await client(serving.url)
        if fault:
            await asyncio.wait_for(one.served[0].gone.wait(), 30)
    assert one.refused == []
    assert answer == ANSWER
    assert DONE == [("weather", "Rome"), ("fahrenheit", 18)]


def bodies(stream):
    tools = [{"name": name} for name in TOOLS]
    chat = [{"type": "function", "function": one} for one in tools]
    flat = [{"type": "function", **one} for one in tools]
    ours = [{**one, "input_schema": {"type": "object"}} for one in tools]
    return {
        "/v1/chat/completions": {"messages": ASK, "tools": chat, "stream": stream},
        "/v1/responses": {"input": "Say it.", "tools": flat, "stream": stream},
        "/v1/messages": {"messages": ASK, "tools": ours, "max_tokens": 999, "stream": stream},
    }


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("fault", [name for name in FAULTS if "secret" in name])
async def test_nothing_forbidden_is_in_any_byte_of_any_protocol(fault, size, stream):
    for release in ("all", "chunk"):
        file = FILE.replace("    repair: {{loop_budget: 2, mode: restart}}\n", "")
        file = file.replace("release: all", f"release: {release}")
        async with (
            provider("deepseek", fault=FAULTS[fault], size=size) as one,
            gateway(one.url, file=file) as serving,
            httpx.AsyncClient(base_url=serving.url, trust_env=False, timeout=60) as client,
        ):
            for path, body in bodies(stream).items():
                answer = await client.post(path, json={"model": "m", **body})
                assert answer.status_code == 200, answer.text
                assert SECRET not in answer.text
                assert SECRET[:12] not in answer.text
                assert any(end in answer.text for end in ("content_filter", "refusal"))


# Silence


@pytest.mark.parametrize(
    ("path", "ping"), [("/v1/chat/completions", ": ping"), ("/v1/messages", "event: ping")]
)
async def test_a_client_is_not_left_in_silence(path, ping):
    """The status comes although nothing has been written, and pings until something is."""
    goes_on = asyncio.Event()
    script = [goes_on, *words("One is fine. Two is too.")]
    async with (
        upstream(script) as behind,
        gateway(behind.url, server=", headers_after: 0.05") as serving,
        httpx.AsyncClient(base_url=serving.url, trust_env=False, timeout=60) as client,
    ):
        body = {"model": "judged", **bodies(True)[path]}
        body.pop("tools")
        async with client.stream("POST", path, json=body) as answer:
            assert answer.status_code == 200
            lines, pings = answer.aiter_lines(), 0
            while pings < 2:
                pings += (await anext(lines)) == ping
            goes_on.set()
            rest = "\n".join([line async for line in lines])
    assert "Two is too." in rest
