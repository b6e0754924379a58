"""Tests of `streamval.pipeline.written`."""

import pytest

from streamval.chunkers import WordChunker
from streamval.errors import DeltaTypeError
from streamval.pipeline.written import Written, recorded
from streamval.types.chunks import Chunk


def test_it_counts_the_tokens_of_what_was_released_from_its_prefix_on():
    written = Written("Kept. ", 1, counts=True)
    for token in ("One", ". Tw", "o."):
        written.add(token)
    assert (written.released_to, written.next_index, written.released_tokens) == (6, 1, 0)
    written.release(Chunk("One.", 1, 6, 10, " "))
    assert (written.released_to, written.next_index) == (10, 2)
    assert written.released_tokens == 1  # the second one reaches beyond the chunk
    written.release(Chunk("Two.", 2, 11, 15, " "))
    assert written.released_tokens == 3
    assert written.text == "Kept. One. Two."


def test_without_counting_it_keeps_no_list_of_tokens():
    written = Written(b"", 0, counts=False)
    written.add(b"ab")
    written.release(Chunk("ab", 0, 0, 2))
    assert (written.text, written.released_tokens) == (b"ab", 0)


def test_text_of_another_kind_is_refused():
    with pytest.raises(DeltaTypeError):
        recorded(WordChunker(), Written("", 0, counts=False), str).feed(b"sound")


def test_a_recorded_chunker_adds_its_text_and_the_rest_at_the_end():
    written = Written("", 0, counts=False)
    chunker = recorded(WordChunker(), written, lambda: "!")
    assert [chunk.text for chunk in chunker.feed("One tw")] == ["One"]
    assert [chunk.text for chunk in chunker.flush()] == ["tw!"]
    assert written.text == "One tw!"
