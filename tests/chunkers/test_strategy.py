"""Tests of `streamval.chunkers.strategy`."""

import pytest

from streamval.chunkers import ChunkingStrategy
from streamval.errors import ChunkerError
from tests.support.strategy import Bars, cut


def test_a_strategy_sees_the_text_since_its_last_chunk():
    strategy = Bars()
    assert cut(strategy, "a|", "b", "c|d", "|", "e") == ["a", "bc", "d", "e"]
    assert strategy.seen == ["a|", "|b", "|bc|d", "|d|", "|e", "|e"]


@pytest.mark.parametrize("text", ["", "no bar at all", "|", "a|", "|a||b"])
def test_a_strategy_on_edge_cases(text):
    for step in (1, 2, 100):
        deltas = [text[n : n + step] for n in range(0, len(text), step)]
        assert cut(Bars(), *deltas) == [part for part in text.split("|") if part]


def test_a_strategy_stays_linear_where_no_boundary_comes():
    strategy = Bars()
    cut(strategy, *["word"] * 20_000)
    assert sum(map(len, strategy.seen)) < 15 * 80_000


def test_a_strategy_that_is_not_verbatim_is_named():
    class Upper(Bars):
        def split(self, accumulated_text):
            return [part.upper() for part in super().split(accumulated_text)]

    with pytest.raises(ChunkerError, match="Upper returned the chunk 'A'"):
        cut(Upper(), "a|")


def test_without_a_flush_of_its_own_a_strategy_drops_the_fragment():
    class NoFlush(Bars):
        flush = ChunkingStrategy.flush

    assert cut(NoFlush(), "a|b") == ["a"]
