"""Loops of tools, with four clients before four providers: what each provider demands back, and what a rule stops."""

import asyncio
import json

import agents
import anthropic
import openai
import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

import streamval as sv
from streamval.integrations import openai_agents, pydantic_ai
from streamval.integrations.langchain import JudgedChatModel
from streamval.types import Message
from streamval.wire.openai_responses import input_items
from tests.support.providers import ANSWER, FAULTS, QUESTION, SECRET, provider

agents.set_tracing_disabled(True)
RULES = [sv.no_secrets(), sv.no_loop().on("text", "reasoning")]
PROVIDERS = ["deepseek", "vllm", "openai", "anthropic"]
DONE = []
"""The calls that were executed."""


def weather(city: str) -> str:
    """The weather in a city."""
    DONE.append(("weather", city))
    return f"18 °C in {city}"


def fahrenheit(celsius: int) -> str:
    """Degrees Fahrenheit."""
    DONE.append(("fahrenheit", celsius))
    return f"{celsius * 9 / 5 + 32:.0f} °F"


TOOLS = {"weather": weather, "fahrenheit": fahrenheit}


def backend_of(one):
    """The backend of streamval for a provider."""
    if one.name == "anthropic":
        base = one.url.removesuffix("/v1")
        return sv.LiteLLMBackend("anthropic/claude-sonnet-4-5", api_base=base, api_key="-")
    api = "responses" if one.name == "openai" else "chat"
    return sv.OpenAIBackend("m", base_url=one.url, api_key="-", api=api)


# The clients: each asks, executes the calls, and returns the answer and all that it was shown.


async def by_hand(one, **options):
    """A loop of our own, before a stream of the provider's own package."""
    pipeline = sv.Pipeline(
        sv.IterableBackend(STREAMS[one.name](one)), tools=list(TOOLS.values()), **options
    )
    history, shown = [Message("user", QUESTION)], []
    for _ in range(4):
        async with pipeline.start(history) as run:
            async for event in run:
                if event.type in ("chunk", "reasoning", "tool_call"):
                    shown.append(event.model_dump_json())
            result = await run
        if not result.success:
            return None, shown
        if not result.tool_calls:
            return result.text, shown
        history.append(result.message)
        for call in result.tool_calls:
            said = TOOLS[call.name](**call.arguments)
            history.append(Message("tool", said, fields={"tool_call_id": call.id}))
    raise AssertionError("more turns than the provider has")


def chat_stream(one):
    client = openai.AsyncOpenAI(base_url=one.url, api_key="-")

    async def stream(request):
        messages = [message.as_dict() for message in request.messages]
        return await client.chat.completions.create(
            model="m", messages=messages, tools=request.tools, stream=True
        )

    return stream


def responses_stream(one):
    client = openai.AsyncOpenAI(base_url=one.url, api_key="-")

    async def stream(request):
        tools = [{"type": "function", **tool["function"]} for tool in request.tools]
        return await client.responses.create(
            model="m", input=input_items(request.messages), tools=tools, stream=True
        )

    return stream


def messages_stream(one):
    client = anthropic.AsyncAnthropic(base_url=one.url.removesuffix("/v1"), api_key="-")

    async def stream(request):
        tools = [
            {"name": tool["function"]["name"], "input_schema": tool["function"]["parameters"]}
            for tool in request.tools
        ]
        messages = [as_anthropic(message) for message in request.messages]
        return await client.messages.create(
            model="m", max_tokens=999, messages=messages, tools=tools, stream=True
        )

    return stream


def as_anthropic(message):
    fields = message.fields
    if message.role == "tool":
        call = fields["tool_call_id"]
        block = {"type": "tool_result", "tool_use_id": call, "content": message.content}
        return {"role": "user", "content": [block]}
    blocks = list(fields.get("thinking_blocks", ()))
    if message.content:
        blocks.append({"type": "text", "text": message.content})
    for call in fields.get("tool_calls", ()):
        name, written = call["function"]["name"], call["function"]["arguments"]
        blocks.append(
            {"type": "tool_use", "id": call["id"], "name": name, "input": json.loads(written)}
        )
    return {"role": message.role, "content": blocks}


STREAMS = {
    "deepseek": chat_stream,
    "vllm": chat_stream,
    "openai": responses_stream,
    "anthropic": messages_stream,
}


async def by_langchain(one, **options):
    model = JudgedChatModel(pipeline=sv.Pipeline(backend_of(one), **options), on_failure="raise")
    model = model.bind_tools(list(TOOLS.values()))
    messages, shown = [HumanMessage(QUESTION)], []
    for _ in range(4):
        answer = None
        try:
            async for piece in model.astream(messages):
                shown.append(piece.model_dump_json())
                answer = piece if answer is None else answer + piece
        except sv.errors.NotValidError:
            return None, shown
        messages.append(answer)
        if not answer.tool_calls:
            return answer.text, shown
        for call in answer.tool_calls:
            said = TOOLS[call["name"]](**call["args"])
            messages.append(ToolMessage(said, tool_call_id=call["id"]))
    raise AssertionError("more turns than the provider has")


async def by_pydantic_ai(one, **options):
    if one.name == "anthropic":
        base = one.url.removesuffix("/v1")
        plain = AnthropicModel("m", provider=AnthropicProvider(base_url=base, api_key="-"))
    else:
        kind = OpenAIResponsesModel if one.name == "openai" else OpenAIChatModel
        field = "reasoning" if one.name == "vllm" else "reasoning_content"
        profile = OpenAIModelProfile(
            openai_chat_thinking_field=field, openai_chat_send_back_thinking_parts="field"
        )
        profile = {} if one.name == "openai" else {"profile": profile}
        plain = kind("gpt-5", provider=OpenAIProvider(base_url=one.url, api_key="-"), **profile)
    agent = Agent(pydantic_ai.JudgedModel(plain, **options), tools=list(TOOLS.values()))
    shown = []
    try:
        async with agent.run_stream_events(QUESTION) as events:
            async for event in events:
                shown.append(repr(event))
                if event.event_kind == "agent_run_result":
                    return event.result.output, shown
    except sv.errors.NotValidError:
        return None, shown


async def by_agents(one, **options):
    client = openai.AsyncOpenAI(base_url=one.url, api_key="-")
    if one.name == "anthropic":
        from agents.extensions.models.litellm_model import LitellmModel

        base = one.url.removesuffix("/v1")
        plain = LitellmModel("anthropic/claude-sonnet-4-5", base_url=base, api_key="-")
    elif one.name == "openai":
        plain = agents.OpenAIResponsesModel("m", client)
    else:
        plain = agents.OpenAIChatCompletionsModel(
            "m", client, should_replay_reasoning_content=lambda _: True
        )
    model = openai_agents.JudgedModel(plain, **options)
    tools = [agents.function_tool(tool, strict_mode=False) for tool in TOOLS.values()]
    thinks = agents.ModelSettings(reasoning={"effort": "low"})
    agent = agents.Agent("helper", model=model, tools=tools, model_settings=thinks)
    shown = []
    run = agents.Runner.run_streamed(agent, QUESTION)
    try:
        async for event in run.stream_events():
            shown.append(repr(event))
    except sv.errors.NotValidError:
        return None, shown
    return run.final_output, shown


CLIENTS = [by_hand, by_langchain, by_pydantic_ai, by_agents]


@pytest.fixture(autouse=True)
def nothing_done():
    DONE.clear()


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_loop_of_three_turns(name, client):
    async with provider(name) as one:
        answer, shown = await client(one, requirements=RULES)
    assert one.refused == []
    assert answer == ANSWER
    assert DONE == [("weather", "Rome"), ("fahrenheit", 18)]
    assert "It is 18 °C there." in "".join(shown)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.parametrize("fault", FAULTS)
async def test_what_a_rule_stops_is_not_shown_not_executed_and_written_again(fault, name, client):
    async with provider(name, fault=FAULTS[fault], size=11) as one:
        answer, shown = await client(one, requirements=RULES, retry=sv.Repair())
        first = one.served[0]
        await asyncio.wait_for(first.gone.wait(), 30)
    assert one.refused == []
    assert answer == ANSWER
    assert DONE == [("weather", "Rome"), ("fahrenheit", 18)]
    assert SECRET not in "".join(shown)
    assert len(one.served) == 4


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.parametrize("fault", FAULTS)
async def test_no_slicing_lets_it_through(fault, name, size):
    async with provider(name, fault=FAULTS[fault], size=size) as one:
        answer, shown = await by_hand(one, requirements=RULES, retry=sv.Repair())
        await asyncio.wait_for(one.served[0].gone.wait(), 30)
    assert (answer, one.refused) == (ANSWER, [])
    assert SECRET not in "".join(shown)
