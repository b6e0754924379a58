"""Tests of `streamval.types.transcript`."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamval.types.transcript import BLOCK, Transcript


@given(st.lists(st.text() | st.just("compact!")), st.text())
def test_it_is_what_was_written_whenever_it_is_compacted(pieces, beginning):
    transcript = Transcript(beginning)
    for piece in pieces:
        if piece == "compact!":
            transcript.compact()
        transcript.write(piece)
    assert transcript.getvalue() == beginning + "".join(pieces)


@pytest.mark.parametrize("piece", ["word ", b"\0\1\2\3\4"])
def test_it_takes_a_byte_or_so_a_character_however_small_the_pieces(piece):
    transcript = Transcript(piece[:0])
    tracemalloc.start()
    for n in range(100 * BLOCK):
        transcript.write(piece[: n % 5 + 1] if n % 2 else piece)
        transcript.compact()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * len(transcript.getvalue())
