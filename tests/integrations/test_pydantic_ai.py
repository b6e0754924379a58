"""Tests of `streamval.integrations.pydantic_ai`, with the real package."""

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent

import streamval as sv
from streamval.errors import UsageError
from streamval.integrations.pydantic_ai import NotValidError, judged_model
from tests.support.sources import Judge, Spoken, fails_on


def agent_of(*deltas, agent=None, **options):
    backend = Spoken(*deltas)
    pipeline = sv.Pipeline(backend, requirements=[Judge(fails_on("Bad."))], **options)
    return backend, Agent(judged_model(pipeline), **(agent or {}))


async def test_an_agent_gets_judged_text_and_its_conversation_arrives():
    backend, agent = agent_of("All is ", "well.", agent={"instructions": "Be brief."})
    first = await agent.run("Hi")
    assert first.output == "All is well."
    assert first.usage.output_tokens == 2
    await agent.run("Go on.", message_history=first.all_messages())
    assert [turn.role for turn in backend.requests[1].messages] == [
        *("system", "user", "assistant", "user")
    ]


async def test_a_stream_is_judged_text():
    _, agent = agent_of("One. ", "Two.")
    async with agent.run_stream("go") as stream:
        pieces = [piece async for piece in stream.stream_text(delta=True, debounce_by=None)]
    assert "".join(pieces) == "One. Two."


async def test_what_is_not_valid_raises():
    _, agent = agent_of("One. ", "Bad.")
    with pytest.raises(NotValidError, match="about Bad"):
        await agent.run("go")


async def test_a_repair_is_not_seen():
    _, agent = agent_of(["Bad. "], ["Good."], retry=sv.Repair())
    assert (await agent.run("go")).output == "Good."


async def test_tools_are_refused():
    backend, agent = agent_of("One.")
    agent.tool_plain(lambda: 1, name="one")
    with pytest.raises(UsageError, match="passes no tools on"):
        await agent.run("go")
    assert backend.opened == 0


class City(BaseModel):
    people: int


async def test_an_output_type_is_judged_while_it_is_written():
    backend = Spoken(['{"people": "'], ['{"people": 3}'])
    pipeline = sv.Pipeline(backend, retry=sv.Repair())
    answer = await Agent(judged_model(pipeline), output_type=City).run("A city.")
    assert answer.output == City(people=3)
    assert len(backend.requests) == 2
    assert backend.requests[0].format["properties"]["people"]["type"] == "integer"
    with pytest.raises(NotValidError, match="a string is not of type integer"):
        await Agent(judged_model(sv.Pipeline(Spoken('{"people": "'))), output_type=City).run("go")
