"""Tests of `streamval.backends.tags`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamval as sv
from streamval.backends.tags import TagReader, check_tags
from streamval.errors import UsageError
from streamval.types import Delta, ToolCallDelta

TAGS = ("<think>", "</think>")


def read(pieces, tags=TAGS, **options):
    """What comes out on each channel, and their order."""
    reader = TagReader(*tags, **options)
    out = [*(one for piece in pieces for one in reader.feed(piece)), *reader.flush()]
    text = "".join(one for one in out if isinstance(one, str))
    thought = "".join(one.reasoning for one in out if not isinstance(one, str))
    return text, thought


@pytest.mark.parametrize(
    ("written", "text", "thought"),
    [
        ("<think>\nHm. </think>\n\nYes.", "Yes.", "Hm. "),
        ("Well. <think>Hm.</think> Yes.", "Well. Yes.", "Hm."),
        ("<think>One.</think>A <think>Two.</think>B", "A B", "One.Two."),
        ("<think>It never ends", "", "It never ends"),
        ("1 < 2 <thin> and </think>", "1 < 2 <thin> and </think>", ""),
        ("<<think>a</think>", "<", "a"),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 100])
def test_tags_are_found_however_they_are_split(written, text, thought, size):
    pieces = [written[at : at + size] for at in range(0, len(written), size)]
    assert read(pieces) == (text, thought)


@given(
    st.lists(st.sampled_from(["<", "think>", "/", "</think>", "<think>", "a ", "\n"]), max_size=12)
)
def test_no_slicing_shows(parts):
    written = "".join(parts)
    assert read(written) == read([written]) == read(parts)


def test_where_the_prompt_ends_with_the_tag_the_output_begins_inside():
    assert read(["Hm.</thi", "nk>Yes. <b>"], ("", "</think>")) == ("Yes. <b>", "Hm.")
    assert read(["Yes."], ("", "</think>"), within_text=True) == ("Yes.", "")


def test_what_else_a_delta_brings_is_kept():
    reader = TagReader(*TAGS)
    done = sv.Delta("<think>Hm.</think>Yes.", finish_reason="stop")
    out = list(reader.feed(done))
    assert out == [sv.Delta(reasoning="Hm."), "Yes.", sv.Delta(finish_reason="stop")]


@pytest.mark.parametrize("wrong", ["<think>", ("<think>",), ("<think>", ""), (1, 2)])
def test_tags_that_are_none_are_refused(wrong):
    assert check_tags(None) is None
    with pytest.raises(UsageError, match="reasoning_tags must be two strings"):
        check_tags(wrong)


def test_what_is_held_back_comes_before_what_follows_it():
    call = ToolCallDelta(0, "c", "now", "{}")
    reader = TagReader("<think>", "</think>")
    given = [
        "a <",
        Delta(tool_call=call),
        "b <th",
        Delta("c", reasoning="Hm.", finish_reason="stop"),
    ]
    assert [piece for one in given for piece in reader.feed(one)] == [
        *("a ", "<", Delta(tool_call=call), "b ", "<th", Delta(reasoning="Hm."), "c"),
        Delta(finish_reason="stop"),
    ]
