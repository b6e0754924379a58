"""Tests of `streamval.wire.openai_responses`."""

import pytest

import streamval as sv
from streamval.errors import StreamBrokenError, UsageError
from streamval.types import Delta, Message, ToolCallDelta, Usage
from streamval.wire.openai_responses import ResponsesReader, input_items

REASONING = {"type": "reasoning", "id": "r1", "summary": [], "encrypted_content": "enc"}
CALL = {"type": "function_call", "call_id": "c1", "name": "weather"}


def event(kind, **more):
    return {"type": f"response.{kind}", **more}


STREAM = [
    event("created", response={}),
    event("output_item.added", output_index=0, item={"type": "reasoning", "id": "r1"}),
    event("reasoning_summary_part.added", output_index=0),
    event("reasoning_summary_text.delta", output_index=0, delta="First."),
    event("reasoning_summary_part.added", output_index=0),
    event("reasoning_summary_text.delta", output_index=0, delta="Second."),
    event("output_item.done", output_index=0, item=REASONING),
    event("output_item.added", output_index=1, item={"type": "message"}),
    event("output_text.delta", output_index=1, delta="I will ask."),
    event("output_item.added", output_index=2, item={**CALL, "arguments": ""}),
    event("function_call_arguments.delta", output_index=2, delta='{"city": '),
    event("function_call_arguments.delta", output_index=2, delta='"Rome"}'),
    event("function_call_arguments.done", output_index=2, arguments='{"city": "Rome"}'),
    event("output_item.done", output_index=2, item={**CALL, "arguments": '{"city": "Rome"}'}),
    event("output_item.done", output_index=3, item={**CALL, "call_id": "c2", "arguments": "{}"}),
    event(
        "completed",
        response={
            "usage": {
                "input_tokens": 7,
                "output_tokens": 9,
                "output_tokens_details": {"reasoning_tokens": 4},
                "input_tokens_details": {"cached_tokens": 2},
            }
        },
    ),
]


def read(events):
    reader = ResponsesReader()
    return [one for each in events for one in reader.read(each)], reader.ended


def test_reasoning_text_and_calls():
    deltas, ended = read(STREAM)
    assert ended
    assert deltas == [
        Delta(reasoning="First."),
        Delta(reasoning="\n\n"),
        Delta(reasoning="Second."),
        Delta(opaque=REASONING),
        Delta("I will ask."),
        Delta(tool_call=ToolCallDelta(0, "c1", "weather")),
        Delta(tool_call=ToolCallDelta(0, arguments='{"city": ')),
        Delta(tool_call=ToolCallDelta(0, arguments='"Rome"}')),
        Delta(tool_call=ToolCallDelta(1, "c2", "weather")),
        Delta(tool_call=ToolCallDelta(1, arguments="{}")),
        Delta(usage=Usage(7, 9, 0, 0, "backend", 4, 2), finish_reason="tool_calls"),
    ]


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("max_output_tokens", "length"), ("content_filter", "content_filter"), (None, "stop")],
)
def test_why_a_response_ended(reason, finish):
    deltas, ended = read([event("incomplete", response={"incomplete_details": {"reason": reason}})])
    assert (deltas[0].finish_reason, ended) == (finish, True)


@pytest.mark.parametrize(
    "failed",
    [
        event("failed", response={"error": {"message": "it broke"}}),
        {"type": "error", "message": "it broke"},
        {"type": "error", "error": {"message": "it broke"}},
    ],
)
def test_a_response_that_failed_is_a_broken_stream(failed):
    with pytest.raises(StreamBrokenError, match="the server reports an error: it broke"):
        read([failed])


def test_a_conversation_with_tools_becomes_items():
    turns = [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "This?"},
                {"type": "image_url", "image_url": {"url": "data:x", "detail": "low"}},
                {"type": "file", "file": {"file_id": "f1"}},
            ],
        },
        {
            "role": "assistant",
            "content": "I will ask.",
            "tool_calls": [{"id": "c1", "function": {"name": "weather", "arguments": "{}"}}],
            "reasoning_items": [REASONING],
        },
        {"role": "tool", "content": "18", "tool_call_id": "c1"},
    ]
    assert input_items([Message.read(turn) for turn in turns]) == [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "This?"},
                {"type": "input_image", "image_url": "data:x", "detail": "low"},
                {"type": "input_file", "file_id": "f1"},
            ],
        },
        REASONING,
        {"role": "assistant", "content": "I will ask."},
        {**CALL, "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "18"},
    ]


@pytest.mark.parametrize(
    ("turn", "named"),
    [
        ({"role": "user", "content": "Hi", "name": "Ann"}, "'name'"),
        ({"role": "user", "content": [{"type": "video_url"}]}, "'video_url'"),
    ],
)
def test_what_has_no_place_there_is_refused_by_name(turn, named):
    with pytest.raises(UsageError, match=named):
        input_items([Message.read(turn)])


def test_what_is_sent_whole_is_read():
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
    said = {"type": "message", "content": [{"type": "output_text", "text": "Hi."}]}
    reader = ResponsesReader()
    events = [
        {"type": "response.output_item.done", "output_index": 0, "item": thought},
        {"type": "response.output_text.done", "output_index": 1, "text": "Hi."},
        {"type": "response.output_item.done", "output_index": 1, "item": said},
    ]
    deltas = [delta for event in events for delta in reader.read(event)]
    assert deltas == [Delta(reasoning="Hm."), Delta("Hi.")]


def test_the_assistants_own_parts_have_the_names_of_an_answer():
    parts = ({"type": "text", "text": "Hi."}, {"type": "refusal", "refusal": "No."})
    said = [
        Message("assistant", "Hi.", parts=parts),
        Message("assistant", "", fields={"refusal": "No."}),
    ]
    assert [item["content"] for item in input_items(said)] == [
        [{"type": "output_text", "text": "Hi."}, {"type": "refusal", "refusal": "No."}],
        [{"type": "refusal", "refusal": "No."}],
    ]


PLACES = [[0, 0, 0], [0, 1, 2], [1, 2, 3], [0, 0, 2]]


@pytest.mark.parametrize("places", PLACES, ids=str)
@pytest.mark.parametrize("text", ["I will ask.", ""])
async def test_several_items_go_back_in_the_order_in_which_they_came(places, text):
    """OpenAI refuses an item of reasoning that stands before another item than its own."""
    items = [{**REASONING, "id": f"rs_{number}"} for number in range(3)]
    asked = [
        {"type": "function_call", "call_id": f"c{number}", "name": "now", "arguments": "{}"}
        for number in range(2)
    ]
    said = [{"type": "message", "content": [{"type": "output_text", "text": text}]}] if text else []
    behind = [[], said, asked[:1], asked[1:]]  # what stands before each place
    order = []
    for place, others in enumerate(behind):
        order += [*others, *(items[n] for n, one in enumerate(places) if one == place)]
    events = [
        {"type": "response.output_item.done", "output_index": at, "item": item}
        for at, item in enumerate(order)
    ]
    events.append({"type": "response.completed", "response": {}})

    class Server(sv.Backend):
        async def stream(self, request):
            reader = ResponsesReader()
            for event in events:
                for delta in reader.read(event):
                    yield delta

    tools = [{"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}]
    result = await sv.Pipeline(Server(), tools=tools).run("Go.")
    back = input_items([result.message])
    assert [one.get("id") or one.get("call_id") or one["content"] for one in back] == [
        one.get("id") or one.get("call_id") or one["content"][0]["text"] for one in order
    ]


@pytest.mark.parametrize("places", ["12", [0], [0, "1"], [0, None], {}, 7])
def test_places_that_are_none_are_ignored(places):
    fields = {"reasoning_items": [REASONING] * 2, "reasoning_places": places}
    turn = Message.read({"role": "assistant", "content": "Hi", **fields})
    assert input_items([turn])[:2] == [REASONING] * 2
