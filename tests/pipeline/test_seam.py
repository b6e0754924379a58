"""Tests of `streamval.pipeline.seam`: the ways in which chat models go on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamval.pipeline.seam import Seam

KEPT = "The sea is wide. It covers most of the Earth."
ON = " It is deep."


def mended(text, size, kept=KEPT):
    seam = Seam(kept)
    pieces = [text[n : n + size] for n in range(0, len(text), size)]
    return "".join([*map(seam.feed, pieces), seam.flush()])


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("written", "stays"),
    [
        # As it should be, with and without the space.
        (" It is deep.", ON),
        ("It is deep.", ON),
        ("\n\nIt is deep.", "\n\nIt is deep."),
        (", and it is deep.", ", and it is deep."),
        # The last sentence, its end, or all of it, again; in another case, spacing or markup.
        ("It covers most of the Earth. It is deep.", ON),
        ("of the Earth. It is deep.", ON),
        ("The sea is wide. It covers most of the Earth. It is deep.", ON),
        ("IT COVERS MOST OF THE EARTH. It is deep.", ON),
        ("It covers  most\nof the Earth. It is deep.", ON),
        ("**It covers most of the Earth.** It is deep.", ON),
        ('"It covers most of the Earth." It is deep.', ON),
        # An ellipsis.
        ("...It is deep.", ON),
        ("… it covers most of the earth. It is deep.", ON),
        # Announcements and greetings.
        ("Sure! Here is the continuation:\n\nIt is deep.", ON),
        ("Of course. It is deep.", ON),
        ("Certainly, going on from there: It is deep.", ON),
        ("Hello! It is deep.", ON),
        ("I'll continue.\n\nIt is deep.", ON),
        ("Okay, here's the rest:\nIt covers most of the Earth. It is deep.", ON),
        # What only looks like one.
        ("Of course, it rains. It is deep.", " Of course, it rains. It is deep."),
        ("Hills rise from it.", " Hills rise from it."),
        ("Here is why it matters. Fish.", " Here is why it matters. Fish."),
        ("It covers most", " It covers most"),
        ("Sure", " Sure"),
        ("The sea has salt.", " The sea has salt."),
        ("", ""),
    ],
)
def test_what_repeats_or_announces_is_dropped_whatever_the_slices(written, stays, size):
    assert mended(written, size) == stays


@pytest.mark.parametrize("size", [1, 1000])
def test_where_the_kept_text_ends_in_mid_sentence(size):
    assert mended("blue and deep.", size, "The sea is") == " blue and deep."
    assert mended("The sea is blue.", size, "The sea is") == " blue."
    assert mended("blue.", size, "The sea is ") == "blue."


@given(st.text(max_size=60), st.integers(1, 9))
def test_nothing_is_lost_but_what_repeats_or_announces(text, size):
    whole = mended(text, len(text) or 1)
    assert mended(text, size) == whole
    assert text.endswith(whole.removeprefix(" ").lstrip()) or "…" in text or ".." in text


def test_a_text_without_an_end_is_not_held_back():
    seam = Seam(KEPT)
    held = 0
    for _ in range(100):
        held += not seam.feed("word ")
    assert held < 5
