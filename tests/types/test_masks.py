"""Tests of `streamval.types.masks`."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from streamval.types.masks import Mask, applied, merged

MASKS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 9)).map(
        lambda one: Mask(one[0], one[0] + one[1], f"<{one[0]}>")
    ),
    max_size=6,
)


@given(MASKS)
def test_merged_masks_cover_the_same_and_do_not_overlap(masks):
    whole = merged(masks)
    assert all(one.end <= other.start for one, other in pairwise(whole))
    covered = {at for one in masks for at in range(one.start, one.end)}
    assert {at for one in whole for at in range(one.start, one.end)} == covered
    assert merged(whole) == whole


@given(st.text("abc", max_size=40), MASKS, st.lists(st.integers(1, 12), max_size=8))
def test_a_text_in_pieces_is_masked_as_the_whole(text, masks, sizes):
    pieces, at = [], 0
    for size in [*sizes, 99]:
        pieces.append((at, text[at : at + size]))
        at += size
    assert "".join(applied(piece, masks, start) for start, piece in pieces) == applied(text, masks)


@given(st.text("abc", max_size=40), MASKS)
def test_what_no_mask_covers_stays(text, masks):
    covered = {at for one in masks for at in range(one.start, one.end)}
    left = "".join(letter for at, letter in enumerate(text) if at not in covered)
    shown = applied(text, masks)
    assert "".join(letter for letter in shown if letter in "abc") == left
