"""Tests of `streamval.commands.demo`."""

import pytest

from tests.support.command_line import streamval


@pytest.mark.local_model
def test_the_demo_shows_a_failure_a_repair_and_a_valid_end():
    done = streamval("demo")
    assert done.returncode == 0, done.stderr
    assert "cancelled" in done.stderr
    assert "went on from there" in done.stderr
    assert "saved from rejected attempts" in done.stderr
    sentences = done.stdout.strip().split(". ")
    assert len(set(sentences)) == len(sentences) > 2  # it went on, and repeats nothing
    assert done.stdout == streamval("demo").stdout  # seeded
