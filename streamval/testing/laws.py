"""The laws of chunkers, as functions that a test calls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from types import FrameType
from typing import Any

from streamval.chunkers.chunking import Chunking, start_chunker
from streamval.testing.slicing import slicings
from streamval.types.chunks import Chunk

TEXTS = (
    "",
    " ",
    "word",
    "One is here. Two is here! Three?",
    "Dr. Brown left at 5 p.m. today. He said “Good night. Sleep well.” and went.",
    "a\r\n\r\nb\n\nc\rd\n",
    "# Head\n\n- one\n- two\n\n```python\nx = 1\n\ny = 2\n```\n\n| a | b |\n|---|---|\n",
    '{"a": [1, 2.5e3, {"b": null}], "c": "é\\u00e9 \\"d\\""}',
    "日本語。はい！「引用。」 e\u0301 👩\u200d👩\u200d👧 ؟ ।",
    "one; two; three;",
    "x" * 300,
    "\t \x0b\x0c\x1c\u2028\ufeff \xa0",
    "... !? ?! … -- ((([[[{{{",
)
"""Texts that chunkers find hard: abbreviations, quotes, fences, line ends, other scripts, no boundary at all."""


def check_chunker(chunking: Chunking, texts: Iterable[str] = TEXTS) -> None:
    """Check that a chunker keeps the laws: the same chunks however the text is sliced, verbatim, and copies.

    Args:
        chunking: What makes it: a class, a function, an alias or a strategy.
        texts: What it cuts.

    Raises:
        AssertionError: Which law is broken, and by which text and deltas.

    Example:
        >>> from streamval.chunkers import RegexChunker
        >>> check_chunker(lambda: RegexChunker(r";\\s*"))
    """
    for text in texts:
        whole = _cut(start_chunker(chunking), [text])
        _check_verbatim(whole, text)
        for deltas in slicings(text):
            found = _cut(start_chunker(chunking), deltas)
            assert found == whole, (
                f"the chunks depend on how {text!r} is sliced: as {deltas!r} they are "
                f"{[one.text for one in found]!r}, as a whole {[one.text for one in whole]!r}"
            )
        for at in {0, len(text) // 3, len(text) - 1} - {-1}:
            _check_copy(chunking, text, at, whole)


def _check_verbatim(chunks: Sequence[Chunk], text: str) -> None:
    for index, found in enumerate(chunks):
        assert found.index == index, f"chunk {index} of {text!r} has index {found.index}"
        assert found.text == text[found.start : found.end] != "", (
            f"chunk {index} of {text!r} is {found.text!r}, and its offsets say "
            f"{text[found.start : found.end]!r}"
        )
    joined = "".join(found.separator + found.text for found in chunks)
    assert joined == text.rstrip(), f"joined, the chunks of {text!r} are {joined!r}"


def _check_copy(chunking: Chunking, text: str, at: int, whole: list[Chunk]) -> None:
    original = start_chunker(chunking)
    begun = original.feed(text[:at])
    twin = copy(original)
    for which, chunker in (("a copy", twin), ("the original, after its copy,", original)):
        found = begun + _cut(chunker, [text[at:]])
        assert found == whole, (
            f"{which} made at {at} goes on otherwise: {[one.text for one in found]!r} of {text!r}"
        )


def check_chunker_cost(
    chunking: Chunking, tokens: Sequence[str] = ("word ", "aaaa", "Mr. ", '"a b', "```\n\n", "[[1")
) -> None:
    """Check that cost is linear in the text, even where no boundary comes. Calls are counted, and no seconds.

    Args:
        chunking: As for `check_chunker`.
        tokens: Deltas that are fed over and over.

    Raises:
        AssertionError: By which token the cost grows.

    Example:
        >>> check_chunker_cost("sentence")
    """
    for token in tokens:
        few, many = _calls(chunking, token, 500), _calls(chunking, token, 2000)
        assert many <= 1.3 * few, (
            f"of deltas {token!r}, each takes {few:.1f} calls after 500, and {many:.1f} after 2,000"
        )


def _calls(chunking: Chunking, token: str, count: int) -> float:
    """Return the calls that a delta takes, of so many."""
    calls, before = 0, sys.getprofile()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += 1

    chunker = start_chunker(chunking)
    sys.setprofile(note)
    try:
        for _ in range(count):
            chunker.feed(token)
    finally:
        sys.setprofile(before)
    return calls / count


def _cut(chunker: Any, deltas: Iterable[str]) -> list[Chunk]:
    feed: Callable[[str], list[Chunk]] = chunker.feed
    chunks = [found for delta in deltas for found in feed(delta)]
    return chunks + list(chunker.flush())
