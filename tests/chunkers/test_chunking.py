"""Tests of `streamval.chunkers.chunking`."""

import pytest

from streamval.chunkers import DeltaChunker, SentenceChunker, WordChunker
from streamval.chunkers.chunking import describe_chunking, finer, start_chunker
from streamval.errors import UsageError
from tests.support.strategy import Bars, cut


@pytest.mark.parametrize(
    "chunking",
    ["word", WordChunker, WordChunker(), lambda: WordChunker(max_chars=99)],
    ids=["alias", "class", "pattern", "factory"],
)
def test_all_the_ways_to_say_it(chunking):
    assert cut(chunking, "one tw", "o three") == ["one", "two", "three"]


def test_a_chunker_given_as_a_pattern_is_never_used_itself():
    pattern = WordChunker()
    cut(pattern, "one two")
    assert pattern.flush() == []


@pytest.mark.parametrize(
    ("chunking", "says"),
    [("sentense", "no chunking is called 'sentense'"), (7, "cannot be int"), ("", "no chunking")],
)
def test_what_is_none_is_refused_with_what_can_be_given(chunking, says):
    with pytest.raises(UsageError, match=says):
        start_chunker(chunking)


def test_a_factory_of_something_else_is_refused():
    with pytest.raises(UsageError, match="feed and flush"):
        start_chunker(dict)


def test_finer():
    assert finer("word", "sentence")
    assert finer(SentenceChunker, "paragraph")
    assert not finer("paragraph", "sentence")
    assert not finer("sentence", "line")
    assert not finer(Bars(), "paragraph")
    assert not finer("word", None)


def test_names_for_events():
    assert [describe_chunking(c) for c in ("word", None, WordChunker, WordChunker(), Bars())] == [
        *("word", "delta", "WordChunker", "WordChunker", "Bars")
    ]
    assert isinstance(start_chunker(None), DeltaChunker)


def test_a_function_of_a_text_is_told_what_to_be():
    def by_word(text):
        return text.split()

    with pytest.raises(UsageError, match="by_word could not be called without arguments"):
        start_chunker(by_word)
