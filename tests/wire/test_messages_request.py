"""Tests of `streamval.wire.messages_request`."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamval.errors import RequestError
from streamval.wire.completions import CompletionRequest
from streamval.wire.messages_request import read_request
from streamval.wire.messages_writer import SIGNATURE
from tests.wire.test_responses_request import anything

PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}


def read(**body):
    return read_request(json.dumps({"model": "m", "max_tokens": 9, **body}).encode())


def test_a_conversation_with_thinking_calls_and_pictures():
    said = read(
        system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "What is it?"}, PICTURE]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": SIGNATURE},
                    {"type": "thinking", "thinking": "Of another.", "signature": "sig="},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "ü"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "And?"},
                    {
                        "type": "tool_result",
                        "tool_use_id": "c1",
                        "content": "dark",
                        "is_error": True,
                    },
                ],
            },
        ],
    )
    system, user, call, result, last = said.messages
    assert system["content"] == "Be brief."
    assert user["content"][1]["image_url"]["url"] == "data:image/png;base64,AA=="
    assert call["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"at": "ü"}'}
    assert (call["content"], call["reasoning_content"]) == ("I look.", "Hm.")
    assert result == {"role": "tool", "tool_call_id": "c1", "content": "Error: dark"}
    assert last == {"role": "user", "content": "And?"}
    assert len(said.turns) == 5


def test_options_have_the_names_of_a_chat():
    said = read(
        messages=[{"role": "user", "content": "Hi"}],
        tools=[{"name": "now", "input_schema": {"type": "object"}, "description": "Time."}],
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
        stop_sequences=["x"],
        metadata={"user_id": "u"},
        thinking={"type": "enabled", "budget_tokens": 1024},
        output_config={"effort": "low", "format": {"type": "json_schema", "schema": {}}},
        top_k=3,
    )
    function = {"name": "now", "parameters": {"type": "object"}, "description": "Time."}
    assert said.options == {
        "max_completion_tokens": 9,
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "stop": ["x"],
        "user": "u",
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": {}}},
        "top_k": 3,
    }


HI = [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({}, "messages must be"),
        ({"messages": HI, "max_tokens": None}, "max_tokens"),
        ({"messages": HI, "tools": [{"type": "web_search_20250305"}]}, "is executed by Anthropic"),
        ({"messages": HI, "tool_choice": {"type": []}}, "tool_choice of type"),
        ({"messages": HI, "mcp_servers": [{}]}, "mcp_servers"),
        ({"messages": [{"role": "user", "content": [{"type": "hologram"}]}]}, "'hologram'"),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "server_tool_use"}]}]},
            "server_tool",
        ),
        ({"messages": [{"role": "ghost", "content": "x"}]}, "needs the role"),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(wrong, why):
    with pytest.raises(RequestError, match=why):
        read(**wrong)


FIELDS = ["messages", "system", "tools", "tool_choice", "metadata", "output_config", "stream"]


@given(st.dictionaries(st.sampled_from(FIELDS), anything, max_size=4))
def test_any_body_is_read_or_refused(body):
    with contextlib.suppress(RequestError):
        assert isinstance(read(**body), CompletionRequest)
