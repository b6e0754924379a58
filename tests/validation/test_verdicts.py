"""Tests of `streamval.validation.verdicts`: plain objects, so every test is a plain call."""

import random

from hypothesis import given
from hypothesis import strategies as st

from streamval.types import Chunk, PartialValidationResult
from streamval.validation.verdicts import Row, TriStateMerge, Verdict

STATES = ["pass", "unknown", "fail"]


def chunk(n):
    return Chunk(f"c{n}", n, 3 * n, 3 * n + 2, " ")


def test_a_row_is_done_when_all_have_answered_or_one_fails_it():
    row = Row(chunk(0), [None, None], 2, 0, 2, [None, None])
    row.add(1, PartialValidationResult("unknown"))
    assert (row.done, row.success) == (False, "unknown")
    row.add(0, PartialValidationResult("pass"))
    assert (row.done, row.success) == (True, "unknown")
    row = Row(chunk(0), [None, None], 2, 0, 2, [None, None])
    row.add(1, PartialValidationResult("fail"))
    assert (row.done, row.success, row.results[0]) == (True, "fail", None)


def test_a_lane_that_has_answered_beforehand_makes_the_row_unknown():
    row = Row(chunk(0), [PartialValidationResult("unknown"), None], 1, 0, 2, [None, None])
    row.add(1, PartialValidationResult("pass"))
    assert (row.done, row.success) == (True, "unknown")
    assert Row(chunk(0), [], 0, 0, 0, []).done


@given(
    st.lists(st.lists(st.sampled_from(STATES), min_size=2, max_size=2), max_size=6), st.integers()
)
def test_the_checks_do_not_depend_on_the_order_of_the_verdicts(table, seed):
    verdicts = [
        Verdict(lane, chunk(n), PartialValidationResult(state), 2)
        for n, states in enumerate(table)
        for lane, state in enumerate(states)
    ]
    random.Random(seed).shuffle(verdicts)
    merge = TriStateMerge()
    checks = [check for verdict in verdicts for check in merge.add(verdict)]
    failing = next((n for n, states in enumerate(table) if "fail" in states), len(table))
    expected = [max(states, key=STATES.index) for states in table[: min(failing + 1, len(table))]]
    assert [check.success for check in checks] == expected
    assert [check.chunk.index for check in checks] == list(range(len(expected)))
