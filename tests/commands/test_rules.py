"""Tests of `streamval.commands.rules`."""

from tests.support.command_line import streamval


def test_rules_are_listed_with_what_they_take_and_when_they_fail():
    shown = streamval("rules").stdout
    assert "word_limit  at_least=None, at_most=None" in shown
    assert "no_secrets" in shown
    assert shown.count("\n    Fails ") > 12
