"""Tests of `streamval.operators.merge_tri_state`."""

import pytest
import reactivex
from reactivex.testing import ReactiveTest

from streamval import PartialValidationResult
from streamval.operators import merge_tri_state
from streamval.validation import Check, Verdict
from tests.support.operators import c, played

on_next, on_error, on_completed = (
    ReactiveTest.on_next,
    ReactiveTest.on_error,
    ReactiveTest.on_completed,
)


def v(lane, index, state, lanes=2, covered=None):
    return Verdict(lane, c(index), PartialValidationResult(state), lanes, None, covered)


def checks(seen):
    return [
        (time, (value.chunk.index, value.success) if isinstance(value, Check) else value)
        for time, value in seen
    ]


def test_a_check_comes_when_every_lane_has_spoken():
    seen, _ = played(
        merge_tri_state(),
        *(on_next(210, v(0, 0, "pass")), on_next(220, v(1, 0, "unknown")), on_completed(230)),
    )
    assert checks(seen) == [(220, (0, "unknown")), (230, "C")]


def test_checks_come_in_chunk_order_whatever_the_order_of_verdicts():
    seen, _ = played(
        merge_tri_state(),
        on_next(210, v(0, 1, "pass")),
        on_next(220, v(1, 1, "pass")),
        on_next(230, v(0, 0, "pass")),
        on_next(240, v(1, 0, "pass")),
        on_completed(250),
    )
    assert checks(seen) == [(240, (0, "pass")), (240, (1, "pass")), (250, "C")]


def test_one_fail_completes_a_chunk_and_ends_the_checks():
    seen, _ = played(
        merge_tri_state(),
        on_next(210, v(0, 0, "fail")),
        on_next(220, v(1, 0, "pass")),
        on_next(230, v(0, 1, "pass")),
        on_next(240, v(1, 1, "pass")),
        on_completed(250),
    )
    assert checks(seen) == [(210, (0, "fail")), (250, "C")]
    assert seen[0][1].results[1] is None


def test_a_later_fail_waits_for_the_chunks_before_it_and_a_lower_one_wins():
    seen, _ = played(
        merge_tri_state(),
        on_next(210, v(0, 1, "fail")),
        on_next(220, v(0, 0, "pass")),
        on_next(230, v(1, 0, "fail")),
        on_completed(240),
    )
    assert checks(seen) == [(230, (0, "fail")), (240, "C")]


@pytest.mark.parametrize(
    ("states", "merged"),
    [
        (["pass", "pass"], "pass"),
        (["pass", "unknown"], "unknown"),
        (["unknown", "fail"], "fail"),
        (["pass", "fail"], "fail"),
    ],
)
def test_fail_beats_unknown_beats_pass(states, merged):
    verdicts = [v(lane, 0, state) for lane, state in enumerate(states)]
    found = []
    reactivex.of(*verdicts).pipe(merge_tri_state()).subscribe(found.append)
    assert [check.success for check in found] == [merged]
