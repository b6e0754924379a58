"""Tests of `streamval.types.frozen`."""

from dataclasses import FrozenInstanceError, dataclass

import pytest

from streamval.types.frozen import setters


@dataclass(frozen=True, slots=True, init=False)
class Pair:
    first: int
    second: str = ""

    def __init__(self, first, second=""):
        set_first(self, first)
        set_second(self, second)


set_first, set_second = setters(Pair)


def test_an_init_may_write_what_nobody_else_may():
    pair = Pair(1, "two")
    assert (pair.first, pair.second) == (1, "two")
    with pytest.raises(FrozenInstanceError):
        pair.first = 3
    assert pair == Pair(1, "two")
    assert hash(pair) == hash(Pair(1, "two"))
