"""Tests of `streamval.serve.wire`."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamval as sv
from streamval.serve.wire import Answer, BadRequestError, asked

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
names = st.sampled_from(
    ["model", "messages", "prompt", "stream", "n", "tools", "stream_options", "x"]
)


@given(st.dictionaries(names, json_values, max_size=8), st.sampled_from(["chat", "text"]))
def test_any_body_is_read_or_refused(body, kind):
    try:
        made = asked(json.dumps(body).encode(), kind)
    except BadRequestError as error:
        assert error.status == 400
    else:
        assert made.turns


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(body):
    with pytest.raises(BadRequestError):
        asked(body, "chat")


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
    made = asked(json.dumps(body).encode(), "chat")
    assert made.options == {"seed": 3, "stop": ["x"], "logprobs": True, "unheard_of": {"a": 1}}
    assert made.messages == tuple(body["messages"])
    assert (made.turns[0].role, made.turns[0].content) == ("developer", "Hi")


def test_an_answer_has_a_finish_reason_in_every_case():
    for kind in ("chat", "text"):
        question = {"model": "m", "messages": [{"role": "user", "content": "x"}], "prompt": "x"}
        made = Answer(asked(json.dumps(question).encode(), kind), "id")
        frames = [json.loads(one[6:]) for one in made.end("stop", sv.Usage(1, 2))]
        assert frames[-1]["choices"][0]["finish_reason"] == "stop"
        whole = made.whole("text", "length", sv.Usage(None, 2))
        assert whole["choices"][0]["finish_reason"] == "length"
        assert whole["usage"]["total_tokens"] == 2
