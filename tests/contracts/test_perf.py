"""Tests of `streamval.contracts.perf`."""

import pytest

from tests.support.contracts import Q, Question, answer, made, refuses, says


def test_figures_of_each_stage_sum_to_100(capsys):
    def act(self, question: Question) -> Question:
        return question

    expression = made(says(answer("Ann")), pre=refuses("x"), act=act, post=refuses("x"))
    expression(Q)
    expression(Q)
    stats = expression.contract_perf_stats()
    assert set(stats) == {"pre", "act", "output", "post", "forward", "overhead"}
    for figures in stats.values():
        assert set(figures) == {"count", "total", "mean", "std", "min", "max", "percentage"}
        assert figures["count"] == 2
        assert 0 <= figures["min"] <= figures["mean"] <= figures["max"] <= figures["total"]
    assert sum(figures["percentage"] for figures in stats.values()) == pytest.approx(100)
    assert "share" in capsys.readouterr().out


def test_before_the_first_call_there_are_no_figures():
    assert made(says("")).contract_perf_stats(show=False) == {}
