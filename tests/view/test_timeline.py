"""Tests of `streamval.view.timeline`."""

import pytest

import streamval as sv
from streamval.view.timeline import Timeline


def folded(*events):
    timeline = Timeline()
    for event in events:
        timeline.apply(event)
    return timeline


def at(seconds, attempt=1):
    return {"run_id": "r", "attempt": attempt, "timestamp": 1000.0 + seconds}


START = sv.StartedEvent(**at(0), model="m", requirements=("a", "b"), chunking="sentence")


def verdict(seconds, chunk, lane, verdict="pass", took=0.0, reason=None):
    return sv.VerdictEvent(
        **at(seconds),
        chunk_index=chunk,
        lane=lane,
        requirement="ab"[lane],
        verdict=verdict,
        reason=reason,
        seconds=took,
    )


def check(seconds, chunk, *verdicts):
    results = tuple(v and sv.PartialValidationResult(v, reason="why") for v in verdicts)
    worst = "fail" if "fail" in verdicts else "pass"
    return sv.QuickCheckEvent(
        **at(seconds), chunk_index=chunk, passed=worst != "fail", verdict=worst, results=results
    )


def retry(seconds, keep, closed):
    return sv.RetryEvent(
        **at(seconds, 2),
        reason="a: why",
        failures=(),
        mode="continue",
        keep_chunks=keep,
        closed_at=1000.0 + closed,
    )


def completed(seconds, closed_at=None):
    return sv.CompletedEvent(
        **at(seconds, 2),
        success=True,
        full_text="",
        attempts_used=2,
        usage=sv.types.Usage(),
        closed_at=closed_at,
    )


def test_a_verdict_is_a_bar_from_when_the_lane_was_asked():
    (attempt,) = folded(START, verdict(3, 0, 1, took=2.0)).attempts
    (judged,) = attempt.judged
    assert (judged.lane, judged.chunk, judged.asked, judged.answered) == (1, 0, 1.0, 3.0)


def test_without_verdict_events_the_check_tells_what_each_lane_said():
    (attempt,) = folded(START, check(3, 0, "pass", None)).attempts
    assert [(j.lane, j.verdict, j.asked, j.answered) for j in attempt.judged] == [
        (0, "pass", None, 3.0)
    ]


def test_a_verdict_is_not_told_twice():
    (attempt,) = folded(
        START, verdict(2, 0, 0), verdict(3, 0, 1), check(3, 0, "pass", "pass")
    ).attempts
    assert len(attempt.judged) == 2
    assert len(attempt.checked) == 1


def test_how_long_after_the_verdict_the_source_was_closed():
    timeline = folded(
        START, verdict(2, 0, 0, "fail"), check(2.5, 0, "fail", None), retry(3, 1, 2.25)
    )
    first, second = timeline.attempts
    assert first.failed_at == 2.0
    assert first.cut_after == pytest.approx(0.25)
    assert (first.ended, first.kept, first.mode) == (3.0, 1, "continue")
    assert (second.began, second.number) == (3.0, 2)


def test_a_source_that_had_ended_by_itself_was_not_cut():
    timeline = folded(START, verdict(2, 0, 0, "fail"), retry(3, 1, 1.5))
    assert timeline.attempts[0].cut_after is None


def test_time_never_runs_backwards():
    timeline = folded(
        START,
        sv.TokenEvent(**at(5), text="a"),
        sv.TokenEvent(**at(-7), text="b"),
        verdict(4, 0, 0, took=1e8),
        sv.TokenEvent(**{**at(0), "timestamp": float("nan")}, text="c"),
        completed(6, closed_at=float("inf")),
    )
    (attempt,) = timeline.attempts
    assert attempt.deltas == [5, 5, 5]
    assert (attempt.judged[0].asked, attempt.judged[0].answered) == (0.0, 5.0)
    assert (timeline.seconds, attempt.closed) == (6.0, None)
