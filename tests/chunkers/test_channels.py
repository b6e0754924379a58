"""Tests of `streamval.chunkers.channels`."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import streamval as sv
from streamval.chunkers.channels import ChannelChunker
from streamval.types import ToolCallDelta


def cut(chunking, *deltas):
    chunker = ChannelChunker.of(chunking)
    chunks = [*(chunk for delta in deltas for chunk in chunker.feed(delta)), *chunker.flush()]
    return [(chunk.channel, chunk.text) for chunk in chunks]


CALL = sv.Delta(tool_call=ToolCallDelta(0, "a", "now", "{}"))


def test_the_rest_of_a_channel_comes_before_the_next_one():
    assert cut("sentence", sv.Delta("Well", reasoning="Hm. So"), CALL, "then. Yes") == [
        ("reasoning", "Hm."),
        ("reasoning", "So"),
        ("text", "Well"),
        ("tool", "now"),
        ("tool", "{}"),
        ("tool", "\n"),
        ("text", "then."),
        ("text", "Yes"),
    ]


def test_json_goes_on_behind_another_channel():
    written = cut("json", '{"a": "x', sv.Delta(reasoning="Hm"), 'y", "b": 1}')
    assert [one for one in written if one[0] == "text"] == [
        ("text", '"xy"'),
        ("text", "1"),
        ("text", "}"),
    ]


pieces = st.lists(
    st.tuples(st.sampled_from(["text", "reasoning"]), st.text("ab. \n", min_size=1, max_size=8)),
    max_size=8,
)


@pytest.mark.parametrize("chunking", ["sentence", "word", "paragraph", "line"])
@given(pieces)
@example([("text", "a a"), ("text", "\n\n"), ("reasoning", "a")])
def test_no_slicing_shows(chunking, written):
    whole = [sv.Delta(**{channel: text}) for channel, text in written]
    sliced = [sv.Delta(**{channel: letter}) for channel, text in written for letter in text]
    assert cut(chunking, *whole) == cut(chunking, *sliced)


@given(pieces)
def test_the_chunks_of_a_channel_joined_are_its_text(written):
    chunker = ChannelChunker.of("sentence")
    deltas = [sv.Delta(**{channel: text}) for channel, text in written]
    chunks = [*(chunk for delta in deltas for chunk in chunker.feed(delta)), *chunker.flush()]
    for channel in ("text", "reasoning"):
        raw = "".join(text for name, text in written if name == channel)
        those = [chunk for chunk in chunks if chunk.channel == channel]
        assert "".join(chunk.separator + chunk.text for chunk in those) == raw.rstrip()
        assert all(raw[chunk.start : chunk.end] == chunk.text for chunk in those)
        assert [chunk.index for chunk in those] == list(range(len(those)))
