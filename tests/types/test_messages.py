"""Tests of `streamval.types.messages`: a message keeps everything that it came with."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamval as sv
from streamval.errors import UsageError
from streamval.types import Message, ToolCall
from streamval.types.messages import assistant_message, refuse_what_is_not_text

CALL = {"id": "c1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
TURNS = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": "When?", "name": "Ann"},
    {
        "role": "user",
        "content": [{"type": "text", "text": "This?"}, {"type": "input_audio", "x": 1}],
    },
    {"role": "assistant", "content": None, "tool_calls": [CALL], "reasoning_content": "Hm."},
    {
        "role": "tool",
        "content": "noon",
        "tool_call_id": "c1",
        "cache_control": {"type": "ephemeral"},
    },
]


@pytest.mark.parametrize("turn", TURNS)
def test_nothing_of_a_message_is_lost(turn):
    assert Message.read(turn).as_dict() == turn
    (through,) = sv.ScriptedBackend("x").request([turn]).messages
    assert through.as_dict() == turn


fields = st.dictionaries(
    st.text(min_size=1, max_size=5).filter(lambda name: name not in ("role", "content")),
    st.integers() | st.lists(st.text(max_size=3), max_size=2),
    max_size=3,
)


@given(
    fields,
    st.text() | st.lists(st.dictionaries(st.text(max_size=4), st.text(), max_size=2), min_size=1),
)
def test_any_fields_and_parts_are_kept(more, content):
    turn = {"role": "user", "content": content, **more}
    assert Message.read(turn).as_dict() == turn


@pytest.mark.parametrize(
    "turn",
    [
        {"role": "robot", "content": "Hi"},
        {"role": "user"},
        {"role": "user", "content": 5},
        {"role": "user", "content": ["Hi"]},
        {"content": "Hi"},
    ],
)
def test_what_is_no_message_is_refused(turn):
    with pytest.raises(UsageError, match="a message needs a role"):
        Message.read(turn)


def test_an_answer_goes_back_with_its_calls_and_its_reasoning():
    call = ToolCall(0, "c1", "now", {}, "{}")
    signed = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    encrypted = {"type": "reasoning", "id": "r1", "encrypted_content": "e"}
    assert assistant_message("Hi.", [], "Hm.").as_dict() == {"role": "assistant", "content": "Hi."}
    assert assistant_message("", [call], "Hm.").as_dict() == {
        "role": "assistant",
        "content": None,
        "tool_calls": [CALL],
        "reasoning_content": "Hm.",
    }
    back = assistant_message("", [call], "Hm.", [signed, encrypted]).as_dict()
    assert (back["thinking_blocks"], back["reasoning_items"]) == ([signed], [encrypted])
    assert "reasoning_content" not in back


@pytest.mark.parametrize(
    ("turn", "named"),
    [(TURNS[2], "input_audio"), (TURNS[3], "tool_calls"), (TURNS[4], "tool_call_id")],
)
def test_what_a_backend_of_text_cannot_send_is_refused_by_name(turn, named):
    refuse_what_is_not_text(map(Message.read, TURNS[:2]), "it")
    with pytest.raises(UsageError, match=f"it takes text only: message 0 has {named}"):
        refuse_what_is_not_text([Message.read(turn)], "it")
