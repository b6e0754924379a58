"""Tests of `streamval.types.text`."""

import unicodedata
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

import streamval as sv
from streamval.types.text import Mender, mended, visible
from tests.support.sources import Spoken

# Halves of pairs among letters, as servers send them that cut an emoji in two.
BROKEN = st.text(st.sampled_from("ab \ud83d\ude00\udc00é😀"), max_size=12)


@given(BROKEN, st.sets(st.integers(0, 12)))
def test_the_same_however_it_is_sliced(text, cuts):
    mender = Mender()
    places = [0, *sorted(cut for cut in cuts if cut <= len(text)), len(text)]
    pieces = [mender.feed(text[a:b]) for a, b in pairwise(places)] + [mender.flush()]
    assert "".join(pieces) == mended(text)
    assert all(piece.encode() is not None for piece in pieces)


@given(st.text())
def test_what_is_right_stays_as_it_is(text):
    assert mended(text) == text


@given(st.text())
def test_nothing_that_is_visible_steers_a_terminal(text):
    assert {unicodedata.category(c) for c in visible(text) if c not in "\t\n"} & {
        "Cc",
        "Cs",
    } == set()


async def test_an_emoji_in_two_halves_is_one_and_a_half_that_stays_alone_is_replaced():
    backend = Spoken("A \ud83d", "\ude00 is here. ", "Two\ud83d.", " \ude00", "\ud83d")
    events = []
    run = sv.Pipeline(
        backend, emit_tokens=True, requirements=[sv.requirements.NoRepetition()]
    ).start("go")
    run.subscribe(events.append)
    result = await run
    assert result.success
    assert result.text == "A 😀 is here. Two\ufffd. \ufffd\ufffd"
    for event in events:
        assert sv.EventAdapter.validate_json(sv.EventAdapter.dump_json(event)) == event


async def test_a_reason_and_an_error_with_half_a_character_survive_json():
    judge = sv.stream_check(lambda text: (False, "odd: \ud83d"), "judge")
    seen = []
    run = sv.Pipeline(Spoken("One."), requirements=[judge]).start("go")
    run.subscribe(lambda event: seen.append(sv.EventAdapter.dump_json(event)))
    assert (await run).failures[0].reason == "odd: \ufffd"
    assert len(seen) == 3
