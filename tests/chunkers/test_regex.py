"""Tests of `streamval.chunkers.regex`; its laws are in `test_laws`."""

import pytest

from streamval.chunkers import RegexChunker
from streamval.errors import ChunkerError, UsageError


def test_a_match_ends_a_chunk():
    chunker = RegexChunker(";")
    chunks = [*chunker.feed("a; b"), *chunker.feed("c;d"), *chunker.flush()]
    assert [chunk.text for chunk in chunks] == ["a;", "bc;", "d"]


def test_a_pattern_that_is_none_is_named():
    with pytest.raises(UsageError, match="regular expression"):
        RegexChunker("(")


def test_a_pattern_that_backtracks_for_years_is_stopped(monkeypatch):
    monkeypatch.setattr("streamval.chunkers.regex.PATIENCE", 0.05)
    with pytest.raises(ChunkerError, match=r"the pattern .* took more than"):
        RegexChunker(r"(a|aa)+$").feed("a" * 60 + "!")
