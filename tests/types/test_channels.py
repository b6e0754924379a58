"""Tests of `streamval.types.channels`."""

from streamval.types.channels import CHANNELS


def test_there_are_three():
    assert CHANNELS == ("text", "reasoning", "tool")
