"""Tests of `streamval.integrations.pydantic_ai`, with the real package."""

import json

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.messages import ModelRequest, ModelResponse, ThinkingPart, ToolCallPart
from pydantic_ai.models.function import DeltaThinkingPart, DeltaToolCall, FunctionModel

import streamval as sv
from streamval.errors import UsageError
from streamval.integrations.pydantic_ai import JudgedModel, NotValidError
from tests.support.sources import Judge, fails_on


class Speaker:
    """A model of Pydantic AI that says one script after another, and remembers what it was asked."""

    def __init__(self, *scripts):
        self.scripts = scripts
        self.asked = []
        self.said = 0

    async def stream(self, messages, info):
        script = self.scripts[min(len(self.asked), len(self.scripts) - 1)]
        self.asked.append(messages)
        for piece in script:
            self.said += 1
            yield piece


def agent_of(*scripts, agent=None, **options):
    speaker = Speaker(*scripts)
    options = {"requirements": [Judge(fails_on("Bad."))], **options}
    model = JudgedModel(FunctionModel(stream_function=speaker.stream), **options)
    return speaker, Agent(model, **(agent or {}))


def call(name="weather", arguments='{"city": "Rome"}', index=0):
    middle = len(arguments) // 2
    first = DeltaToolCall(name, arguments[:middle], tool_call_id=f"c{index}")
    return [{index: first}, {index: DeltaToolCall(json_args=arguments[middle:])}]


def weather(city: str) -> str:
    return f"18 °C in {city}"


async def test_an_agent_gets_judged_text_and_its_conversation_arrives():
    speaker, agent = agent_of(["All is ", "well."], agent={"instructions": "Be brief."})
    first = await agent.run("Hi")
    assert first.output == "All is well."
    await agent.run("Go on.", message_history=first.all_messages())
    kinds = [type(message) for message in speaker.asked[1]]
    assert kinds == [ModelRequest, ModelResponse, ModelRequest]
    assert speaker.asked[1][0].instructions == "Be brief."


async def test_a_stream_is_judged_text():
    _, agent = agent_of(["One. ", "Two."])
    async with agent.run_stream("go") as stream:
        pieces = [piece async for piece in stream.stream_text(delta=True, debounce_by=None)]
    assert "".join(pieces) == "One. Two."


async def test_what_is_not_valid_raises_and_the_model_is_closed():
    speaker, agent = agent_of(["One. ", "Bad. ", *["More. "] * 200])
    with pytest.raises(NotValidError, match="about Bad"):
        await agent.run("go")
    assert speaker.said < 200
    with pytest.raises(NotValidError, match="about Bad"):
        async with agent.run_stream("go") as stream:
            await stream.get_output()


async def test_a_repair_is_not_seen_and_its_words_are_a_part_of_their_own():
    speaker, agent = agent_of(["Bad. "], ["Good."], retry=sv.Repair())
    assert (await agent.run("go")).output == "Good."
    prompt, words = speaker.asked[1][-1].parts
    assert prompt.content == "go"
    assert "about Bad" in words.content


async def test_asked_in_words_it_goes_on():
    script = ["One. ", "Bad. "], ["Two."]
    speaker, agent = agent_of(*script, retry=sv.Repair(mode="ask"))
    assert (await agent.run("go")).output == "One. Two."
    assert [type(one) for one in speaker.asked[1]] == [ModelRequest, ModelResponse, ModelRequest]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_loop_of_tools_with_thinking(streamed):
    thinking = {0: DeltaThinkingPart(content="I need it.")}
    speaker, agent = agent_of(
        [thinking, *call(arguments='{"town": "Rome"}', index=1)],
        [thinking, *call(index=1)],
        ["It is 18 °C."],
        retry=sv.Repair(),
        agent={"tools": [weather]},
    )
    if streamed:
        async with agent.run_stream("How is Rome?") as answer:
            output, messages = await answer.get_output(), answer.all_messages()
    else:
        answer = await agent.run("How is Rome?")
        output, messages = answer.output, answer.all_messages()
    assert output == "It is 18 °C."
    _, called, result, _ = messages
    thought, tool = called.parts
    assert (type(thought), thought.content) == (ThinkingPart, "I need it.")
    assert (type(tool), json.loads(tool.args)) == (ToolCallPart, {"city": "Rome"})
    assert result.parts[0].content == "18 °C in Rome"
    assert "$.town: the key 'town' is not allowed" in speaker.asked[1][-1].parts[-1].content


async def test_reasoning_is_judged_where_a_rule_listens():
    loop = {0: DeltaThinkingPart(content="I go round. " * 9)}
    _, agent = agent_of([loop, "Yes."], requirements=[sv.no_loop().on("reasoning")])
    with pytest.raises(NotValidError, match="never go round"):
        await agent.run("go")


class City(BaseModel):
    people: int


async def test_an_output_type_is_judged_while_it_is_written():
    wrong, good = call("final_result", '{"people": "three"}'), call("final_result", '{"people": 3}')
    speaker, agent = agent_of(wrong, good, retry=sv.Repair(), agent={"output_type": City})
    assert (await agent.run("A city.")).output == City(people=3)
    assert len(speaker.asked) == 2


async def test_the_agent_asks_again_where_that_is_wanted():
    speaker, agent = agent_of(["Bad."], ["Good."], on_failure="retry", agent={"retries": 2})
    assert (await agent.run("go")).output == "Good."
    assert "about Bad" in speaker.asked[1][-1].parts[-1].content


@pytest.mark.parametrize("wrong", [{"on_failure": "x"}, {"tools": []}, {"retry": 3}])
def test_wrong_options(wrong):
    with pytest.raises(UsageError):
        agent_of(["One."], **wrong)
