"""Tests of `streamval.operators.chunk`."""

import pytest
import reactivex
from reactivex import operators as ops
from reactivex.testing import ReactiveTest

from streamval.operators import (
    chunk,
    chunk_by_line,
    chunk_by_paragraph,
    chunk_by_sentence,
    chunk_by_word,
)
from tests.support.operators import played, texts

on_next, on_error, on_completed = (
    ReactiveTest.on_next,
    ReactiveTest.on_error,
    ReactiveTest.on_completed,
)


def test_chunk_comes_with_the_delta_that_completes_it():
    #   --"One. T"--"wo. "--"x"--|
    # --------------One.-------Two.x|
    seen, _ = played(
        chunk("sentence"),
        *(on_next(210, "One. T"), on_next(220, "wo. "), on_next(230, "Th "), on_completed(240)),
    )
    assert texts(seen) == [(220, "One."), (230, "Two."), (240, "Th"), (240, "C")]


def test_chunk_passes_an_error_on_and_drops_the_fragment():
    seen, disposed = played(chunk("word"), on_next(210, "a b"), on_error(220, "boom"))
    assert texts(seen) == [(210, "a"), (220, "E")]
    assert disposed == [220]


def test_chunk_goes_on_from_an_index_and_an_offset():
    seen, _ = played(chunk("word", index=3, start=10), on_next(210, " a b "), on_completed(220))
    assert [(c.index, c.start, c.end) for _, c in seen[:-1]] == [(3, 11, 12), (4, 13, 14)]


def test_each_subscription_has_a_chunker_of_its_own():
    twice = reactivex.of("a b").pipe(chunk("word"))
    for _ in range(2):
        found = []
        twice.subscribe(lambda c: found.append((c.index, c.text)))
        assert found == [(0, "a"), (1, "b")]


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (chunk_by_sentence(), ["One two.", "Three\nfour", "five"]),
        (chunk_by_word(), ["One", "two.", "Three", "four", "five"]),
        (chunk_by_line(), ["One two. Three", "four", "five"]),
        (chunk_by_paragraph(), ["One two. Three\nfour", "five"]),
    ],
)
def test_chunk_by(operator, expected):
    found = []
    reactivex.of("One two. Three\nfour\n\nfive").pipe(operator).subscribe(found.append)
    assert [c.text for c in found] == expected


def test_a_users_own_operator_composes_with_ours():
    def numbered(source):
        return source.pipe(ops.map(lambda chunk: f"{chunk.index + 1}. {chunk.text}"))

    found = []
    reactivex.of("a b").pipe(chunk("word"), numbered).subscribe(found.append)
    assert found == ["1. a", "2. b"]
