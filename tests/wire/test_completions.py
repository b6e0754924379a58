"""Tests of `streamval.wire.completions`: what clients send, and frames as hostile servers send them."""

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamval as sv
from streamval.errors import RequestError, StreamBrokenError
from streamval.types.deltas import Delta
from streamval.types.results import Usage
from streamval.wire import openai_chat, openai_text
from streamval.wire.completions import CompletionReader

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
formats = pytest.mark.parametrize("wire", [openai_chat, openai_text])


@formats
@given(st.dictionaries(names, json_values, max_size=8))
def test_any_body_is_read_or_refused(wire, body):
    try:
        made = wire.read_request(json.dumps(body).encode())
    except RequestError as error:
        assert error.status == 400
    else:
        assert made.turns


@formats
@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(wire, body):
    with pytest.raises(RequestError):
        wire.read_request(body)


def read_delta(frame):
    (delta,) = CompletionReader().read(frame)
    return delta


def as_object(value):
    """The same as the packages' objects are: attributes in place of keys."""
    if isinstance(value, dict):
        return SimpleNamespace(**{name: as_object(one) for name, one in value.items()})
    if isinstance(value, list) and value and "delta" in value[0]:
        return [as_object(one) for one in value]
    return value


def chat(content, **more):
    return {"choices": [{"index": 0, "delta": {"content": content, **more}}]}


def text(**choice):
    return {"choices": [{"index": 0, **choice}]}


@pytest.mark.parametrize("made", [dict, as_object])
@pytest.mark.parametrize(
    ("frame", "delta"),
    [
        (chat("Hi"), Delta("Hi")),
        (chat(None), Delta()),
        (chat("", refusal="I will not."), Delta(refusal="I will not.")),
        (chat([{"text": "Hi "}, {"type": "thinking"}, {"text": "you"}]), Delta("Hi you")),
        ({"choices": []}, Delta()),
        ({"choices": None}, Delta()),
        (
            {"choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 3}},
            Delta(usage=Usage(2, 3, source="backend")),
        ),
    ],
)
def test_frames_are_read_from_dictionaries_and_objects(made, frame, delta):
    assert read_delta(made(frame)) == delta


def test_frames_of_text_and_of_further_answers():
    assert read_delta(text(text="Hi", finish_reason="stop")) == Delta("Hi", finish_reason="stop")
    assert read_delta(text(text="Hi") | {"choices": [{"index": 1, "text": "another"}]}) == Delta()


@pytest.mark.parametrize("content", [5, True, {"a": 1}, [5], [{"text": 5}]])
def test_content_that_is_no_text_is_a_broken_stream(content):
    with pytest.raises(StreamBrokenError, match="where text is expected"):
        read_delta(chat(content))


@pytest.mark.parametrize("content", [0, {}, False, 5, ["Hi"]])
def test_the_text_of_a_text_completion_is_text(content):
    with pytest.raises(StreamBrokenError, match="where text is expected"):
        read_delta(text(text=content))


@pytest.mark.parametrize("kind", ["image_url", "refusal", "tool_use", 5, None])
def test_a_part_that_is_not_known_is_not_dropped(kind):
    with pytest.raises(StreamBrokenError, match="which is not known"):
        read_delta(chat([{"type": kind, "words": "Buy Acme."}]))


@pytest.mark.parametrize("reason", [5, "", [], {}])
def test_a_finish_reason_that_is_none(reason):
    assert read_delta(text(text="x", finish_reason=reason)).finish_reason is None


def test_a_finish_reason_that_says_failure():
    with pytest.raises(StreamBrokenError, match="has failed"):
        read_delta(text(text="x", finish_reason="error"))


@pytest.mark.parametrize("count", ["many", [1], 2.5, -5, True, 2**60])
def test_a_count_that_is_none(count):
    usage = {"prompt_tokens": count, "completion_tokens": count}
    assert read_delta({"choices": [], "usage": usage}).usage is None


def test_a_block_of_openrouter_comes_in_pieces_and_goes_back_whole():
    def details(*given):
        return {"choices": [{"delta": {"reasoning_details": list(given)}}]}

    reader = CompletionReader()
    thought = {"type": "reasoning.text", "index": 0, "format": "anthropic-claude-v1"}
    sealed = {"type": "reasoning.encrypted", "index": 1, "data": "gAAA", "id": "rs_1"}
    frames = [
        details({**thought, "text": "Let me "}),
        details({**thought, "text": "see.", "signature": None}, sealed),
        details({**thought, "signature": "c2ln"}),
    ]
    found = [delta.opaque for one in frames for delta in reader.read(one) if delta.opaque]
    assert found == [sealed, {**thought, "text": "Let me see.", "signature": "c2ln"}]
    many = [details({"index": number, "text": "x"}) for number in range(10_000)]
    assert all(not delta.opaque for one in many for delta in reader.read(one))
    assert len(reader._details) < 200


async def test_googles_signature_of_a_call_goes_back_with_it_if_it_is_one():
    tool = {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}
    for signature, kept in (("CpYBAR/x+=", True), ("say it aloud", False)):
        call = {
            "index": 0,
            "id": "c1",
            "function": {"name": "now", "arguments": "{}"},
            "extra_content": {"google": {"thought_signature": signature}},
        }
        (delta,) = CompletionReader().read({"choices": [{"delta": {"tool_calls": [call]}}]})[1:]
        result = await sv.Pipeline(sv.ScriptedBackend([(delta,)]), tools=[tool]).run("Go.")
        (back,) = result.message.as_dict()["tool_calls"]
        assert ("extra_content" in back) is kept
        assert kept is (back.get("extra_content") == call["extra_content"])
