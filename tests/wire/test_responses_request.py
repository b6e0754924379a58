"""Tests of `streamval.wire.responses_request`."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamval.errors import RequestError
from streamval.wire.completions import CompletionRequest
from streamval.wire.responses_request import read_request

PICTURE = {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "low"}


def read(**body):
    return read_request(json.dumps({"model": "m", **body}).encode())


def test_a_conversation_with_reasoning_calls_and_pictures():
    said = read(
        instructions="Be brief.",
        input=[
            {"role": "user", "content": [{"type": "input_text", "text": "What is it?"}, PICTURE]},
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "Hm."}],
            },
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
            {"type": "function_call", "call_id": "c2", "name": "smell", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "red"},
            {"type": "function_call_output", "call_id": "c2", "output": "sweet"},
            {
                "type": "message",
                "role": "assistant",
                "content": [
                    {"type": "output_text", "text": "An "},
                    {"type": "output_text", "text": "apple."},
                ],
            },
        ],
    )
    system, user, calls, red, sweet, apple = said.messages
    assert system == {"role": "system", "content": "Be brief."}
    assert user["content"][1]["image_url"] == {"url": PICTURE["image_url"], "detail": "low"}
    assert [call["id"] for call in calls["tool_calls"]] == ["c1", "c2"]
    assert calls["reasoning_content"] == "Hm."
    assert (red["tool_call_id"], sweet["content"]) == ("c1", "sweet")
    assert apple == {"role": "assistant", "content": "An apple."}
    assert len(said.turns) == 6


def test_options_have_the_names_of_a_chat():
    schema = {"type": "object"}
    said = read(
        input="Hi",
        tools=[{"type": "function", "name": "now", "parameters": {}, "strict": None}],
        tool_choice={"type": "function", "name": "now"},
        text={"format": {"type": "json_schema", "name": "N", "schema": schema}, "verbosity": "low"},
        reasoning={"effort": "high", "summary": "auto"},
        max_output_tokens=9,
        temperature=0.5,
        unheard_of=1,
        include=["reasoning.encrypted_content"],
        store=True,
    )
    assert said.options == {
        "tools": [{"type": "function", "function": {"name": "now", "parameters": {}}}],
        "tool_choice": {"type": "function", "function": {"name": "now"}},
        "response_format": {"type": "json_schema", "json_schema": {"name": "N", "schema": schema}},
        "verbosity": "low",
        "reasoning_effort": "high",
        "max_completion_tokens": 9,
        "temperature": 0.5,
        "unheard_of": 1,
    }
    assert (said.echo["temperature"], said.echo["store"]) == (0.5, True)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({}, "input must be"),
        ({"input": []}, "input must be"),
        ({"input": "Hi", "tools": [{"type": "web_search"}]}, "'web_search' is executed by OpenAI"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "'item_reference' is not served"),
        ({"input": [{"role": "user", "content": [{"type": "hologram"}]}]}, "'hologram'"),
        ({"input": [{"type": "function_call", "name": 7}]}, "needs call_id"),
        ({"input": "Hi", "stream": "yes"}, "stream must be"),
        ({"input": "Hi", "text": []}, None),
        ({"input": "Hi", "reasoning": "deep"}, "reasoning must be an object"),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(wrong, why):
    if why is None:
        assert read(**wrong).options == {}
        return
    with pytest.raises(RequestError, match=why):
        read(**wrong)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["type", "role", "content", "text", "name"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)
FIELDS = ["input", "instructions", "tools", "tool_choice", "text", "reasoning", "stream"]


@given(st.dictionaries(st.sampled_from(FIELDS), anything, max_size=4))
def test_any_body_is_read_or_refused(body):
    with contextlib.suppress(RequestError):
        assert isinstance(read(**body), CompletionRequest)
