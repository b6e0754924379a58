"""Tests of `streamval.wire.openai_chat`."""

import json

import streamval as sv
from streamval.wire.answers import Answer, TokenLogprob
from streamval.wire.openai_chat import ChatWriter, read_request


def test_all_else_goes_through():
    body = {
        "model": "m",
        "messages": [
            {
                "role": "developer",
                "content": [{"type": "text", "text": "Hi"}, {"type": "image_url"}],
            }
        ],
        "seed": 3,
        "stop": ["x"],
        "logprobs": True,
        "temperature": None,
        "unheard_of": {"a": 1},
    }
    made = read_request(json.dumps(body).encode())
    assert made.options == {"seed": 3, "stop": ["x"], "logprobs": True, "unheard_of": {"a": 1}}
    assert made.messages == tuple(body["messages"])
    assert (made.turns[0].role, made.turns[0].content) == ("developer", "Hi")


CALL = sv.types.ToolCall(0, "c", "now", {}, "{}")


def test_the_role_comes_once_and_the_finish_reason_last():
    writer = ChatWriter("r", "m", 7)
    frames = [
        *writer.text("One."),
        *writer.tool_calls([CALL]),
        *writer.end("stop", sv.types.Usage(1, 2), refusal="No."),
    ]
    deltas = [frame["choices"][0]["delta"] for frame in frames[:-1]]
    assert deltas == [
        {"role": "assistant", "content": "One."},
        {"tool_calls": [{"index": 0, **CALL.as_dict()}]},
        {"refusal": "No."},
        {},
    ]
    assert [frame["choices"][0]["finish_reason"] for frame in frames[:-1]] == [None] * 3 + ["stop"]
    assert (frames[-1]["choices"], frames[-1]["usage"]["total_tokens"]) == ([], 3)
    assert {frame["id"] for frame in frames} == {"chatcmpl-r"}
    assert len(writer.end("stop")) == 1


def test_a_whole_answer():
    known = [TokenLogprob(3, "Hi.", -0.5)]
    whole = ChatWriter("r", "m", 7).whole(
        Answer("Hi.", "length", sv.types.Usage(None, 2), logprobs=known)
    )
    (choice,) = whole["choices"]
    assert (whole["object"], choice["finish_reason"]) == ("chat.completion", "length")
    assert choice["message"]["content"] == "Hi."
    assert choice["logprobs"]["content"][0]["logprob"] == -0.5
    assert whole["usage"]["total_tokens"] == 2
    calls = ChatWriter("r", "m", 7).whole(Answer("", "tool_calls", calls=[CALL]))
    assert calls["choices"][0]["message"]["content"] is None
