"""Tests of `streamval.wire.responses_writer`: by the types of the `openai` package, and read back."""

from typing import Annotated

import pytest
from openai.types.responses import ResponseStreamEvent
from pydantic import Discriminator, TypeAdapter

from streamval.types import Delta, ToolCall, Usage
from streamval.wire.openai_responses import ResponsesReader
from streamval.wire.responses_writer import ResponsesWriter

EVENTS = TypeAdapter(Annotated[ResponseStreamEvent, Discriminator("type")])
CALL = ToolCall(0, "c1", "weather", {"city": "Rome"}, '{"city": "Rome"}')
USAGE = Usage(7, 9, 0, 0, "backend", 4, 2)


def checked(events):
    """The events, once the types of the package have accepted them."""
    for number, event in enumerate(events):
        assert event["sequence_number"] == number
        EVENTS.validate_python(event)
    return events


def kinds(events):
    return [event["type"].removeprefix("response.") for event in events]


def test_everything_that_a_model_writes_in_its_order():
    writer = ResponsesWriter("resp_1", "m", {"temperature": 0.5})
    events = checked(
        [
            *writer.begin(),
            *writer.reasoning("Let me "),
            *writer.reasoning("see."),
            *writer.text("I will "),
            *writer.text("ask."),
            *writer.tool_calls([CALL]),
            *writer.refusal("No."),
            *writer.end("tool_calls", USAGE),
        ]
    )
    assert kinds(events) == [
        *("created", "in_progress"),
        *("output_item.added", "reasoning_summary_part.added"),
        *("reasoning_summary_text.delta", "reasoning_summary_text.delta"),
        *("reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done"),
        *("output_item.added", "content_part.added", "output_text.delta", "output_text.delta"),
        *("output_text.done", "content_part.done", "output_item.done"),
        *("output_item.added", "function_call_arguments.delta", "function_call_arguments.done"),
        *("output_item.done", "output_item.added", "content_part.added", "refusal.delta"),
        *("refusal.done", "content_part.done", "output_item.done", "completed"),
    ]
    assert [event["output_index"] for event in events if "output_index" in event] == sorted(
        event["output_index"] for event in events if "output_index" in event
    )
    whole = events[-1]["response"]
    assert whole["temperature"] == 0.5
    assert [item["type"] for item in whole["output"]] == [
        "reasoning",
        "message",
        "function_call",
        "message",
    ]
    assert all(item["status"] == "completed" for item in whole["output"])
    begun = next(event for event in events if event["type"] == "response.content_part.added")
    assert begun["part"]["text"] == ""
    reader = ResponsesReader()
    deltas = [delta for event in events for delta in reader.read(event)]
    assert "".join(str(delta.text) for delta in deltas) == "I will ask."
    assert "".join(delta.reasoning for delta in deltas) == "Let me see."
    assert deltas[-1] == Delta(usage=USAGE, finish_reason="tool_calls")
    assert "".join(delta.tool_call.arguments for delta in deltas if delta.tool_call) == CALL.raw


@pytest.mark.parametrize(
    ("reason", "status", "why"),
    [
        ("stop", "completed", None),
        ("length", "incomplete", {"reason": "max_output_tokens"}),
        ("content_filter", "incomplete", {"reason": "content_filter"}),
    ],
)
def test_how_it_ends(reason, status, why):
    writer = ResponsesWriter("resp_1", "m")
    *_, last = checked([*writer.begin(), *writer.text("Hi"), *writer.end(reason, None)])
    assert last["type"] == f"response.{status}"
    assert (last["response"]["status"], last["response"]["incomplete_details"]) == (status, why)


def test_an_error_ends_what_is_open():
    writer = ResponsesWriter("resp_1", "m")
    events = [
        *writer.begin(),
        *writer.text("Hi"),
        *writer.fail({"error": {"message": "it broke off"}}),
    ]
    assert kinds(checked(events))[-2:] == ["output_item.done", "failed"]
    assert events[-1]["response"]["error"] == {"code": "server_error", "message": "it broke off"}


def test_text_and_a_refusal_are_parts_of_one_message():
    writer = ResponsesWriter("resp_1", "m")
    events = checked(
        [*writer.begin(), *writer.text("Hm. "), *writer.refusal("No."), *writer.end("stop", USAGE)]
    )
    (message,) = events[-1]["response"]["output"]
    assert [part["type"] for part in message["content"]] == ["output_text", "refusal"]
    deltas = [event["content_index"] for event in events if event["type"].endswith(".delta")]
    assert deltas == [0, 1]
