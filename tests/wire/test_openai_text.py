"""Tests of `streamval.wire.openai_text`."""

import pytest

import streamval as sv
from streamval.errors import RequestError
from streamval.wire.answers import Answer, TokenLogprob
from streamval.wire.openai_text import TextWriter, read_request


def test_a_prompt_is_one_text():
    assert read_request(b'{"model": "m", "prompt": ["Hi"]}').turns[0].content == "Hi"
    with pytest.raises(RequestError, match="prompt must be a single string"):
        read_request(b'{"model": "m", "prompt": ["Hi", "you"]}')


def test_frames_and_the_whole_answer():
    writer = TextWriter("r", "m", 7)
    known = [TokenLogprob(3, "Hi.", -0.5)]
    first, last, usage = [*writer.text("Hi.", known), *writer.end("stop", sv.types.Usage(1, 2))]
    assert first["choices"][0]["text"] == "Hi."
    assert first["choices"][0]["logprobs"]["text_offset"] == [0]
    assert last["choices"][0] == {"index": 0, "finish_reason": "stop", "logprobs": None, "text": ""}
    assert usage["usage"]["completion_tokens"] == 2
    whole = writer.whole(Answer("Hi.", "length", sv.types.Usage(None, 2)))
    assert (whole["object"], whole["choices"][0]["text"]) == ("text_completion", "Hi.")
    assert whole["id"] == "cmpl-r"


def test_tools_are_refused():
    with pytest.raises(RequestError, match="use chat completions"):
        read_request(b'{"model": "m", "prompt": "x", "tools": [{"type": "function"}]}')
