"""Tests of `streamval.integrations.langchain`, with the real package."""

import asyncio

import pytest
from langchain_core.exceptions import OutputParserException
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel

import streamval as sv
from streamval.errors import NotValidError
from streamval.integrations.langchain import JudgedChatModel
from tests.support.sources import Judge, Spoken, fails_on


def model_of(*deltas, **options):
    backend = Spoken(*deltas)
    pipeline = sv.Pipeline(backend, requirements=[Judge(fails_on("Bad."))], **options)
    return backend, JudgedChatModel(pipeline=pipeline)


async def test_in_a_chain_only_judged_text_arrives():
    backend, model = model_of("Good. ", "Bad. ", "More. ", asyncio.Event().wait)
    chain = ChatPromptTemplate.from_template("Say {what}.") | model | StrOutputParser()
    pieces = [piece async for piece in chain.astream({"what": "it"})]
    assert "".join(pieces) == "Good."
    assert backend.closed == 1
    assert backend.requests[0].messages == (sv.types.Message("user", "Say it."),)


async def test_what_was_taken_back_is_metadata():
    _, model = model_of(["One. ", "Bad. "], ["Two. ", "Three."], retry=sv.Repair(mode="restart"))
    stands, told = "", []
    async for piece in model.astream("go"):
        told += piece.response_metadata.get("streamval", [])
        if told and told[-1]["type"] == "retry" and not piece.content:
            stands = stands[: told[-1]["keep_characters"]]
        stands += piece.content
    assert stands == "Two. Three."
    assert [one["type"] for one in told] == ["retry", "completed"]
    assert told[-1]["success"]


async def test_the_messages_and_options_arrive():
    backend, model = model_of(
        sv.Delta("Good.", usage=sv.types.Usage(7, 1, source="backend"), finish_reason="stop")
    )
    conversation = [
        SystemMessage("Be brief."),
        HumanMessage("Hi"),
        AIMessage("Yes?"),
        HumanMessage("Go."),
    ]
    answer = await model.ainvoke(conversation, stop=["x"], temperature=0.5)
    assert answer.content == "Good."
    assert answer.response_metadata["finish_reason"] == "stop"
    request = backend.requests[0]
    assert [turn.role for turn in request.messages] == ["system", "user", "assistant", "user"]
    assert dict(request.options) == {"stop": ["x"], "temperature": 0.5}
    assert answer.usage_metadata["input_tokens"] == 7


@tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"18 °C in {city}"


def called(arguments='{"city": "Rome"}'):
    return sv.Delta(tool_call=sv.types.ToolCallDelta(0, "c1", "weather", arguments))


async def test_a_loop_of_tools_with_reasoning_that_goes_back():
    usage = sv.types.Usage(7, 9, 0, 0, "backend", 4, 2)
    first = [sv.Delta(reasoning="I need it. "), "I ask. ", called(), sv.Delta(usage=usage)]
    backend = Spoken()
    backend.script_of = lambda request: first if len(request.messages) == 1 else ["It is 18 °C."]
    model = JudgedChatModel(pipeline=sv.Pipeline(backend)).bind_tools([weather], tool_choice="any")
    turns = [HumanMessage("How is Rome?")]
    turns.append(await model.ainvoke(turns))
    (call,) = turns[-1].tool_calls
    assert (call["name"], call["args"]) == ("weather", {"city": "Rome"})
    assert turns[-1].additional_kwargs["reasoning_content"] == "I need it."
    assert turns[-1].usage_metadata["input_token_details"] == {"cache_read": 2}
    assert turns[-1].usage_metadata["output_token_details"] == {"reasoning": 4}
    turns.append(weather.invoke(call))
    assert (await model.ainvoke(turns)).content == "It is 18 °C."
    request = backend.requests[1]
    assert request.tool_choice == "required"
    _, asked, result = (message.as_dict() for message in request.messages)
    assert asked["tool_calls"][0]["id"] == result["tool_call_id"] == "c1"
    assert (asked["reasoning_content"], result["content"]) == ("I need it.", "18 °C in Rome")


async def test_a_wrong_call_is_repaired_and_only_the_good_one_arrives():
    script = [[called('{"town": "Rome"}')], [called()]]
    for streamed in (False, True):
        pipeline = sv.Pipeline(Spoken(*script), retry=sv.Repair())
        model = JudgedChatModel(pipeline=pipeline).bind_tools([weather])
        if streamed:
            answer = None
            async for piece in model.astream("How is Rome?"):
                answer = piece if answer is None else answer + piece
            assert piece.chunk_position == "last"
        else:
            answer = await model.ainvoke("How is Rome?")
        assert [call["args"] for call in answer.tool_calls] == [{"city": "Rome"}]


async def test_pictures_arrive():
    backend, model = model_of("Fine.")
    picture = {"type": "image", "base64": "AA==", "mime_type": "image/png"}
    await model.ainvoke([HumanMessage([{"type": "text", "text": "What?"}, picture])])
    (message,) = backend.requests[0].messages
    assert [part["type"] for part in message.parts] == ["text", "image_url"]


def test_sync_streaming_gives_each_chunk_as_it_comes():
    _, model = model_of("One. ", "Two. ", "3.")
    assert "".join(piece.content for piece in model.stream("go")) == "One. Two. 3."
    backend, model = model_of("One. ", "Two. ", asyncio.Event().wait)
    stream = model.stream("go")
    assert next(stream).content == "One."
    stream.close()
    assert backend.closed == 1


async def test_a_run_that_is_not_valid_raises_where_that_is_wanted():
    for options in ({}, {"on_failure": "raise"}):
        _, model = model_of("Good. ", "Bad. ")
        model = JudgedChatModel(pipeline=model.pipeline, **options)
        if not options:
            answer = await model.ainvoke("go")
            assert (answer.content, answer.response_metadata["finish_reason"]) == (
                "Good.",
                "content_filter",
            )
            continue
        with pytest.raises(NotValidError, match="about Bad"):
            await model.ainvoke("go")
        with pytest.raises(NotValidError, match="about Bad"):
            _ = [piece async for piece in model.astream("go")]


async def test_it_says_what_it_is():
    _, model = model_of("Good.")
    assert model._get_ls_params()["ls_model_name"] == "faulty"
    events = [event async for event in model.astream_events("go", version="v2")]
    assert "on_chat_model_stream" in {event["event"] for event in events}


def test_without_a_loop_and_in_a_batch():
    _, model = model_of("Good.")
    assert model.invoke("go").content == "Good."
    assert [answer.content for answer in model.batch(["a", "b"])] == ["Good.", "Good."]


async def test_leaving_early_closes_the_backend():
    backend, model = model_of("One. ", "Two. ", asyncio.Event().wait)
    stream = model.astream("go")
    async for piece in stream:
        if piece.content:
            break
    await stream.aclose()
    async with asyncio.timeout(60):
        while not backend.closed:
            await asyncio.sleep(0)


async def test_in_a_graph_of_langgraph():
    _, model = model_of("Good. ", "More. ")

    async def answer(state):
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer").compile()
    streamed = [
        piece.content
        async for piece, _ in graph.astream(
            {"messages": [HumanMessage("Hi")]}, stream_mode="messages"
        )
        if isinstance(piece, AIMessage)
    ]
    assert "".join(streamed).startswith("Good. More.")
    ended = await graph.ainvoke({"messages": [HumanMessage("Hi")]})
    assert ended["messages"][-1].content == "Good. More."


class City(BaseModel):
    """A city."""

    name: str
    people: int


CITY = {"title": "City", "type": "object", "properties": {"people": {"type": "integer"}}}


@pytest.mark.parametrize(("schema", "parsed"), [(City, City(name="Rome", people=3)), (CITY, {"name": "Rome", "people": 3})])  # fmt: skip
async def test_structured_output_is_judged_while_it_is_written(schema, parsed):
    backend = Spoken('{"name": "Rome", ', '"people": 3}')
    model = JudgedChatModel(pipeline=sv.Pipeline(backend)).with_structured_output(schema)
    assert await model.ainvoke("A city.") == parsed
    assert await model.ainvoke("A city.", stop=["x"]) == parsed


@pytest.mark.parametrize("schema", [City, CITY])
async def test_structured_output_that_cannot_become_valid_is_cancelled(schema):
    backend = Spoken('{"people": [', asyncio.Event().wait)
    model = JudgedChatModel(pipeline=sv.Pipeline(backend))
    with pytest.raises(OutputParserException):
        await model.with_structured_output(schema).ainvoke("A city.")
    assert backend.closed == 1
    both = await model.with_structured_output(schema, include_raw=True).ainvoke("A city.")
    assert both["parsed"] is None
    assert isinstance(both["parsing_error"], OutputParserException)
    assert both["raw"].response_metadata["finish_reason"] == "content_filter"
