"""Tests of `streamval.testing.laws`: each law is broken once, and named."""

from dataclasses import replace

import pytest

from streamval.chunkers import ChunkingStrategy, RegexChunker, SentenceChunker, WordChunker
from streamval.testing import check_chunker, check_chunker_cost


class BySlices(WordChunker):
    def feed(self, delta):
        return super().feed(delta) + self.flush()


class Shouting(WordChunker):
    def feed(self, delta):
        return [replace(one, text=one.text.upper()) for one in super().feed(delta)]


class Counting(WordChunker):
    def feed(self, delta):
        return [replace(one, index=7) for one in super().feed(delta)]


class Losing(WordChunker):
    def flush(self):
        return []


class Sharing(WordChunker):
    """Its copies share a list."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def feed(self, delta):
        self.seen.append(delta)
        return super().feed(
            "x " if len(self.seen) > 2 and self.seen[-1] == self.seen[-2] else delta
        )


class Searching(WordChunker):
    """Looks at everything again with each delta."""

    def __init__(self):
        super().__init__()
        self.all = []

    def feed(self, delta):
        self.all.append(delta)
        for one in self.all:
            len(one)
        return super().feed(delta)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (BySlices, "depend on how"),
        (Shouting, "its offsets say"),
        (Counting, "has index 7"),
        (Losing, "joined, the chunks"),
    ],
)
def test_a_law_that_is_broken_is_named(broken, said):
    with pytest.raises(AssertionError, match=said):
        check_chunker(broken, ["One is here. Two."])


def test_copies_that_share_state_are_noticed():
    with pytest.raises(AssertionError, match=r"goes on otherwise|depend on how"):
        check_chunker(Sharing, ["ab" * 4])


def test_cost_that_grows_is_noticed():
    with pytest.raises(AssertionError, match="calls after 500"):
        check_chunker_cost(Searching, ["word "])


class Bars(ChunkingStrategy):
    def split(self, accumulated_text):
        return [part for part in accumulated_text.split("|")[:-1] if part]

    def flush(self, accumulated_text):
        return [part for part in [accumulated_text.split("|")[-1]] if part]


@pytest.mark.parametrize("kept", [SentenceChunker, lambda: RegexChunker(";"), "markdown"])
def test_those_that_keep_them_pass(kept):
    check_chunker(kept)
    check_chunker_cost(kept, ["word "])
