"""Tests of `streamval.types.chunks`."""

import copy
import pickle
from dataclasses import FrozenInstanceError, replace

import pytest

from streamval import Chunk

CHUNK = Chunk("Two.", 1, 5, 9, " ")


def test_offsets_are_those_of_the_raw_text():
    raw = "One. Two. Three."
    assert raw[CHUNK.start : CHUNK.end] == CHUNK.text
    assert raw[CHUNK.start - 1 : CHUNK.start] == CHUNK.separator


def test_it_is_frozen_and_compares_by_value():
    with pytest.raises(FrozenInstanceError):
        CHUNK.text = "Three."
    assert Chunk("Two.", 1, 5, 9, " ") == CHUNK
    assert {CHUNK, Chunk("Two.", 1, 5, 9, " ")} == {CHUNK}
    assert replace(CHUNK, index=7) == Chunk("Two.", 7, 5, 9, " ")


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))]
)
def test_copies_are_equal(copied):
    assert copied(CHUNK) == CHUNK


def test_a_separator_need_not_be_given():
    assert Chunk("One.", 0, 0, 4).separator == ""
