"""Tests of `streamval.wire.messages_writer`: by the types of the `anthropic` package, and read back."""

import pytest
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from streamval.types import Delta, ToolCall, Usage
from streamval.wire.answers import Answer
from streamval.wire.anthropic_messages import MessagesReader
from streamval.wire.messages_writer import MessagesWriter, error_event

EVENTS = TypeAdapter(RawMessageStreamEvent)
CALLS = [
    ToolCall(0, "c1", "weather", {"city": "Rome"}, '{"city": "Rome"}'),
    ToolCall(1, "c2", "now", {}, "{}"),
]
USAGE = Usage(7, 9, 0, 0, "backend", 4, 2)


def checked(events):
    """The events, once the types of the package have accepted them."""
    for event in events:
        EVENTS.validate_python(event)
    return events


def written(writer, reason="tool_calls", refusal=None):
    return checked(
        [
            *writer.begin(),
            *writer.reasoning("Let me "),
            *writer.reasoning("see."),
            *writer.text("I will "),
            *writer.text("ask."),
            *writer.tool_calls(CALLS if reason == "tool_calls" else []),
            *writer.end(reason, USAGE, refusal),
        ]
    )


def test_everything_that_a_model_writes_in_its_order():
    events = written(MessagesWriter("msg_1", "m"))
    assert [event["type"].removeprefix("content_block_") for event in events] == [
        "message_start",
        *("start", "delta", "delta", "delta", "stop"),  # the last one is the signature
        *("start", "delta", "delta", "stop"),
        *("start", "delta", "stop") * 2,
        "message_delta",
        "message_stop",
    ]
    indices = [event["index"] for event in events if "index" in event]
    assert indices == sorted(indices)
    reader = MessagesReader()
    deltas = [delta for event in events for delta in reader.read(event)]
    assert "".join(str(delta.text) for delta in deltas) == "I will ask."
    assert "".join(delta.reasoning for delta in deltas) == "Let me see."
    called = [delta.tool_call for delta in deltas if delta.tool_call and delta.tool_call.name]
    assert [(call.id, call.name) for call in called] == [("c1", "weather"), ("c2", "now")]
    assert [delta.usage for delta in deltas if delta.usage][-1].cached_tokens == 2
    assert deltas[-1] == Delta(finish_reason="tool_use")


@pytest.mark.parametrize(
    ("reason", "stop_reason"),
    [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal")],
)
def test_how_it_ends(reason, stop_reason):
    events = written(MessagesWriter("msg_1", "m"), reason, "No.")
    assert events[-2]["delta"]["stop_reason"] == stop_reason
    whole = MessagesWriter("msg_1", "m").whole(Answer("Hi", reason, USAGE, refusal="No."))
    assert Message.model_validate(whole).stop_reason == stop_reason
    assert [block["text"] for block in whole["content"]] == ["Hi", "No."]


def test_a_whole_answer_has_what_the_events_have():
    answer = Answer("I ask.", "tool_calls", USAGE, "Hm.", CALLS)
    whole = Message.model_validate(MessagesWriter("msg_1", "m").whole(answer))
    assert [block.type for block in whole.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert whole.content[2].input == {"city": "Rome"}
    assert (whole.stop_reason, whole.usage.input_tokens) == ("tool_use", 5)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, "authentication_error"), (429, "rate_limit_error"), (502, "api_error")],
)
def test_errors(status, kind):
    said = {"error": {"message": "no", "type": "x"}}
    assert error_event(said, status) == {"type": "error", "error": {"type": kind, "message": "no"}}
    assert MessagesWriter("msg_1", "m").fail(said)[0]["error"]["type"] == "api_error"
