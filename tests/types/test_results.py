"""Tests of `streamval.types.results`."""

import dataclasses

import pytest

import streamval as sv
from streamval import PartialValidationResult, ValidationResult
from streamval.events import EventAdapter
from streamval.types import Usage


@pytest.mark.parametrize(
    "result",
    [
        sv.PartialValidationResult("pass", score=float("inf")),
        sv.PartialValidationResult("fail", reason=ValueError("an exception")),
    ],
)
def test_odd_verdicts_survive_json(result):
    event = sv.QuickCheckEvent(
        run_id="r", attempt=1, chunk_index=0, passed=True, verdict="pass", results=(result,)
    )
    assert EventAdapter.validate_json(EventAdapter.dump_json(event)) == event


@pytest.mark.parametrize("state", ["pass", "fail", "unknown"])
def test_the_three_states(state):
    result = PartialValidationResult(state, reason="why", score=0.5, thunk="t", context="c")
    assert (result.success, result.reason, result.score) == (state, "why", 0.5)
    assert (result.thunk, result.context) == ("t", "c")
    assert result.as_bool() is (state == "pass")


@pytest.mark.parametrize("state", [True, None, "PASS", "", "maybe"])
def test_any_other_state_is_a_value_error(state):
    with pytest.raises(ValueError, match="'pass', 'fail' or 'unknown'"):
        PartialValidationResult(state)


@pytest.mark.parametrize("result", [PartialValidationResult("pass"), ValidationResult(True)])
def test_results_are_immutable(result):
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.reason = "changed"


def test_everything_but_the_verdict_is_keyword_only():
    with pytest.raises(TypeError):
        PartialValidationResult("pass", "why")
    with pytest.raises(TypeError):
        ValidationResult(True, "why")


def test_a_result_with_an_error_is_never_a_pass():
    result = ValidationResult(True, error=ValueError("no JSON"))
    assert not result
    assert not result.as_bool()
    assert result.error == "ValueError: no JSON"


def test_usage_adds_up_and_says_who_counted():
    total = Usage(5, 10, 4, 2, "backend") + Usage(None, 3, 3, 0, "deltas")
    assert total == Usage(5, 13, 7, 2, "mixed")
    assert (Usage() + Usage()).source == "deltas"


def test_a_dataclass_of_ones_own_is_checked_as_well():
    @dataclasses.dataclass(frozen=True)
    class Scored(PartialValidationResult):
        extra: int = dataclasses.field(default=0, kw_only=True)

    assert Scored("fail", reason=ValueError("why"), extra=1).reason == "why"
    with pytest.raises(ValueError, match="success must be"):
        Scored("maybe")
    with pytest.raises(ValueError, match="success must be"):
        dataclasses.replace(Scored("pass"), success="maybe")
