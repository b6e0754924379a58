"""Tests of `streamval.integrations.openai_agents`, with the real package and a provider on a real socket."""

import agents
import openai
import pytest
from pydantic import BaseModel

import streamval as sv
from streamval.errors import NotValidError, UsageError
from streamval.integrations.openai_agents import JudgedModel, JudgedModelProvider
from tests.support.providers import SECRET, provider
from tests.support.upstream import upstream

agents.set_tracing_disabled(True)


class Point(BaseModel):
    x: int
    y: int


def plain_of(url):
    return agents.OpenAIChatCompletionsModel("m", openai.AsyncOpenAI(base_url=url, api_key="-"))


async def said_by(script, agent=None, streamed=False, **options):
    """The final output of an agent, and the bodies of its requests. A script has the words of each request."""
    async with upstream(lambda body, number: script[number]) as server:
        agent = agents.Agent(
            "a", model=JudgedModel(plain_of(server.url), **options), **(agent or {})
        )
        if streamed:
            run = agents.Runner.run_streamed(agent, "Go.")
            async for _ in run.stream_events():
                pass
        else:
            run = await agents.Runner.run(agent, "Go.")
        return run, [one.body for one in server.requests]


async def test_an_output_type_is_judged_while_it_is_written():
    script = [['{"x": 1, ', '"y": "two"', ', "z": 3}'], ['{"x": 1, "y": 2}']]
    run, bodies = await said_by(script, agent={"output_type": Point}, retry=sv.Repair())
    assert run.final_output == Point(x=1, y=2)
    assert "$.y" in bodies[1]["messages"][-1]["content"]
    assert bodies[1]["messages"][:-1] == bodies[0]["messages"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_run_that_is_not_valid_raises_and_says_why(streamed):
    with pytest.raises(NotValidError, match="wombat"):
        await said_by(
            [["A wombat. "]], requirements=[sv.forbidden_words(["wombat"])], streamed=streamed
        )


async def test_text_that_was_rewritten_is_in_the_output_and_in_what_goes_back():
    script = [[f"The key is {SECRET}."], ["Bye."]]
    async with upstream(lambda body, number: script[number]) as server:
        hide = sv.operators.rewrite(lambda text: text.replace(SECRET, "[secret]"))
        model = JudgedModel(plain_of(server.url), chunk_operators=[hide])
        agent = agents.Agent("a", model=model)
        run = await agents.Runner.run(agent, "Go.")
        assert run.final_output == "The key is [secret]."
        await agents.Runner.run(agent, [*run.to_input_list(), {"role": "user", "content": "And?"}])
        assert SECRET not in str(server.requests[1].body)


async def test_text_that_was_streamed_is_not_taken_back_in_silence():
    script = [["One. ", "wombat. "], ["Two."]]
    rule = sv.forbidden_words(["wombat"])
    with pytest.raises(NotValidError, match="no longer stands"):
        await said_by(script, requirements=[rule], retry=sv.Repair(), streamed=True)
    run, _ = await said_by(script, requirements=[rule], retry=sv.Repair())
    assert run.final_output == "Two."


async def test_a_handoff_is_a_call_that_is_judged():
    call = {"index": 0, "id": "c1", "function": {"name": "transfer_to_b", "arguments": "{}"}}
    wrong = {**call, "function": {"name": "transfer_to_c", "arguments": "{}"}}
    frames = [[_calls(wrong)], [_calls(call)], ["Here is b."]]
    async with upstream(lambda body, number: frames[number]) as server:
        model = JudgedModel(plain_of(server.url), retry=sv.Repair())
        b = agents.Agent("b", model=model)
        run = await agents.Runner.run(agents.Agent("a", model=model, handoffs=[b]), "Go.")
    assert (run.last_agent.name, run.final_output) == ("b", "Here is b.")
    assert "transfer_to_c" in server.requests[1].body["messages"][-1]["content"]


def _calls(*calls):
    return {
        "choices": [{"index": 0, "delta": {"tool_calls": calls}, "finish_reason": "tool_calls"}]
    }


async def test_the_usage_of_every_attempt_is_counted():
    script = [["A wombat. "], ["Fine."]]
    rule = sv.forbidden_words(["wombat"])
    run, _ = await said_by(script, requirements=[rule], retry=sv.Repair())
    usage = run.context_wrapper.usage
    assert usage.requests == 2
    assert usage.output_tokens > 1


async def test_responses_keep_their_ids_where_the_text_is_as_it_was_written():
    async with provider("openai") as one:
        client = openai.AsyncOpenAI(base_url=one.url, api_key="-")
        model = JudgedModel(agents.OpenAIResponsesModel("m", client))
        tool = agents.function_tool(lambda city: city, name_override="weather", strict_mode=False)
        agent = agents.Agent("a", model=model, tools=[tool], tool_use_behavior="stop_on_first_tool")
        run = await agents.Runner.run(agent, "Go.")
    (response,) = run.raw_responses
    assert response.response_id == "resp_0"
    assert [item.id for item in response.output] == ["think_0_0", "call_0_1"]


async def test_a_provider_judges_each_model_by_its_name():
    async with upstream(["A wombat. "]) as server:
        client = openai.AsyncOpenAI(base_url=server.url, api_key="-")
        plain = agents.OpenAIProvider(openai_client=client, use_responses=False)
        judged = JudgedModelProvider(plain, requirements=[sv.forbidden_words(["wombat"])])
        config = agents.RunConfig(model_provider=judged)
        with pytest.raises(NotValidError, match="wombat"):
            await agents.Runner.run(agents.Agent("a", model="m"), "Go.", run_config=config)


def test_wrong_arguments_are_refused_at_once():
    with pytest.raises(UsageError, match="JudgedModelProvider"):
        JudgedModel("gpt-5")
    plain = plain_of("http://127.0.0.1:9/v1")
    with pytest.raises(UsageError, match="the agent says 'tools'"):
        JudgedModel(plain, tools=[])
    with pytest.raises(UsageError, match="retry must be"):
        JudgedModelProvider(retry=3)
