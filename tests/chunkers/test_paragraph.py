"""Tests of `streamval.chunkers.paragraph`; its laws are in `test_laws`."""

from streamval.chunkers import ParagraphChunker


def test_a_blank_line_ends_a_paragraph_and_a_break_does_not():
    chunker = ParagraphChunker()
    chunks = [*chunker.feed("one\ntwo\n"), *chunker.feed("\n\nthree"), *chunker.flush()]
    assert [chunk.text for chunk in chunks] == ["one\ntwo", "three"]
    assert chunks[1].separator == "\n\n\n"
