"""Tests of `streamval.chunkers.line`; its laws are in `test_laws`."""

from streamval.chunkers import LineChunker


def test_a_line_is_complete_with_its_break_and_keeps_its_indent():
    chunker = LineChunker()
    chunks = [*chunker.feed("one\n  two\n\nthr"), *chunker.feed("ee"), *chunker.flush()]
    assert [chunk.text for chunk in chunks] == ["one", "  two", "three"]
    assert [chunk.separator for chunk in chunks] == ["", "\n", "\n\n"]
