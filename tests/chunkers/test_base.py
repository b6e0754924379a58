"""Tests of `streamval.chunkers.base`: what the chunkers of text share."""

import copy

import pytest

from streamval.chunkers import TextChunker
from streamval.chunkers.base import JOIN_AT, not_sound, not_text, shifted
from streamval.types import Chunk


class Commas(TextChunker):
    """Cuts behind each comma."""

    def cuts(self, delta):
        return [at + 1 for at, char in enumerate(delta) if char == ","]


def test_a_chunker_of_ones_own_only_says_where_to_cut():
    chunker = Commas()
    chunks = [*chunker.feed("a, b"), *chunker.feed("c,d"), *chunker.flush()]
    assert [chunk.text for chunk in chunks] == ["a,", "bc,", "d"]
    assert "".join(chunk.separator + chunk.text for chunk in chunks) == "a, bc,d"


def test_many_small_pieces_are_joined_now_and_then():
    chunker = Commas()
    for _ in range(5 * JOIN_AT):
        chunker.feed("x")
    assert len(chunker._pieces) < 4 * JOIN_AT
    (chunk,) = chunker.feed(",")
    assert len(chunk.text) == 5 * JOIN_AT + 1


def test_a_chunk_that_grows_too_long_is_cut_at_whitespace():
    chunker = Commas(max_chars=8)
    chunks = [*chunker.feed("one two three"), *chunker.flush()]
    assert [chunk.text for chunk in chunks] == ["one two", "three"]


def test_a_copy_goes_on_by_itself():
    chunker = Commas()
    chunker.feed("a")
    twin = copy.copy(chunker)
    assert [chunk.text for chunk in twin.feed("b,")] == ["ab,"]
    assert [chunk.text for chunk in chunker.feed("c,")] == ["ac,"]


def test_a_chunk_further_on():
    assert shifted(Chunk("b", 1, 2, 3, " "), 10, 5) == Chunk("b", 6, 12, 13, " ")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (not_text(None), "skip deltas without content"),
        (not_text(b""), "decode them first"),
        (not_text(5), "yield strings"),
        (not_sound("x"), "yield bytes of PCM"),
    ],
)
def test_what_cannot_be_cut_is_an_error_that_says_what_to_do(error, says):
    assert says in str(error)
