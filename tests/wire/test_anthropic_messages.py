"""Tests of `streamval.wire.anthropic_messages`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamval.errors import StreamBrokenError
from streamval.types import Delta, ToolCallDelta, Usage
from streamval.wire.anthropic_messages import EVENTS, MessagesReader


def start(index, **block):
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index, kind, **more):
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **more}}


def stop(index):
    return {"type": "content_block_stop", "index": index}


INTERLEAVED = [
    {
        "type": "message_start",
        "message": {"usage": {"input_tokens": 5, "cache_read_input_tokens": 2}},
    },
    {"type": "ping"},
    start(0, type="thinking", thinking="", signature=""),
    delta(0, "thinking_delta", thinking="Let me "),
    delta(0, "thinking_delta", thinking="see."),
    delta(0, "signature_delta", signature="sig="),
    stop(0),
    start(1, type="redacted_thinking", data="enc"),
    stop(1),
    start(2, type="text", text=""),
    delta(2, "text_delta", text="I will ask."),
    stop(2),
    start(3, type="tool_use", id="t1", name="weather", input={}),
    delta(3, "input_json_delta", partial_json=""),
    delta(3, "input_json_delta", partial_json='{"city": '),
    delta(3, "input_json_delta", partial_json='"Rome"}'),
    stop(3),
    start(4, type="tool_use", id="t2", name="now", input={"at": 1}),  # whole, of some servers
    stop(4),
    start(5, type="server_tool_use", id="s1", name="web_search", input={}),
    delta(5, "input_json_delta", partial_json='{"query": "x"}'),
    stop(5),
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
]


def test_interleaved_thinking_text_and_calls():
    reader = MessagesReader()
    deltas = [one for event in INTERLEAVED for one in reader.read(event)]
    assert reader.ended
    assert [one for one in deltas if one != Delta()] == [
        Delta(reasoning="Let me "),
        Delta(reasoning="see."),
        Delta(opaque={"type": "thinking", "thinking": "Let me see.", "signature": "sig="}),
        Delta(opaque={"type": "redacted_thinking", "data": "enc"}),
        Delta("I will ask."),
        Delta(tool_call=ToolCallDelta(0, "t1", "weather")),
        Delta(tool_call=ToolCallDelta(0)),
        Delta(tool_call=ToolCallDelta(0, arguments='{"city": ')),
        Delta(tool_call=ToolCallDelta(0, arguments='"Rome"}')),
        Delta(tool_call=ToolCallDelta(1, "t2", "now", '{"at": 1}')),
        Delta(usage=Usage(7, 9, source="backend", cached_tokens=2)),
        Delta(finish_reason="tool_use"),
    ]


def test_an_error_of_the_server_breaks_the_stream():
    with pytest.raises(StreamBrokenError, match="the server reports an error: Overloaded"):
        MessagesReader().read({"type": "error", "error": {"message": "Overloaded"}})


values = st.recursive(
    st.none() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2)
    ),
    max_leaves=4,
)
names = st.sampled_from(["index", "delta", "content_block", "type", "text", "usage", "message"])


@given(st.sampled_from(sorted(EVENTS)), st.dictionaries(names, values, max_size=4))
def test_any_event_is_read_or_breaks_the_stream(kind, more):
    try:
        deltas = MessagesReader().read({**more, "type": kind})
    except StreamBrokenError:
        return
    assert all(isinstance(one, Delta) for one in deltas)
