"""Tests of `streamval.testing.slicing`."""

import pytest

from streamval.testing import slicings


@pytest.mark.parametrize("text", ["", "a", "ab", "word " * 30, "é\ud83d\ude00" * 60])
def test_each_is_the_whole_text_and_no_delta_is_empty(text):
    found = list(slicings(text))
    assert all("".join(deltas) == text and "" not in deltas for deltas in found)
    assert [text] in found or not text
    assert list(text) in found
    assert found == list(slicings(text))
    assert len(text) < 20 or len({tuple(deltas) for deltas in found}) > 100


def test_another_seed_slices_otherwise():
    assert list(slicings("word " * 30)) != list(slicings("word " * 30, seed=1))
