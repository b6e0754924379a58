"""Tests of `streamval.chunkers.word`; its laws are in `test_laws`."""

from streamval.chunkers import WordChunker


def test_a_word_is_complete_once_whitespace_follows():
    chunker = WordChunker()
    assert [chunk.text for chunk in chunker.feed("it\train")] == ["it"]
    assert chunker.feed("s") == []
    assert [chunk.text for chunk in chunker.feed(" ")] == ["rains"]
    assert chunker.flush() == []
