"""Tests of `streamval.validation.final_check`."""

import pytest

import streamval as sv
from streamval.types.thunk import GenerationMetadata
from streamval.validation.final_check import final_check
from streamval.validation.verdicts import failures_of

CTX = sv.types.Context().with_output("One.")
NEVER = sv.Requirement("never", lambda ctx: sv.ValidationResult(False, reason="no", error="broken"))
ALWAYS = sv.Requirement("always", lambda ctx: True)


async def test_each_requirement_that_fails_is_a_failure_with_its_lane():
    check = await final_check(
        [ALWAYS, NEVER], sv.ScriptedBackend("x"), CTX, GenerationMetadata("m")
    )
    assert [(one.requirement, one.reason, one.lane, one.chunk_index) for one in check.failures] == [
        ("never", "no (broken)", 1, None)
    ]
    assert (check.chunk, check.success) == (None, "fail")
    assert [bool(one) for one in check.results] == [True, False]


@pytest.mark.parametrize(
    ("reason", "says"),
    [("content_filter", "the provider's content filter cut it off"), ("refusal", "No, thanks.")],
)
async def test_of_an_answer_that_was_refused_no_requirement_is_asked(reason, says):
    known = GenerationMetadata(
        "m", finish_reason=reason, refusal="No, thanks." * (reason[0] == "r")
    )
    check = await final_check([NEVER], sv.ScriptedBackend("x"), CTX, known)
    assert says in check.failures[0].reason
    assert check.results == ()


def test_a_lane_that_was_cut_off_has_not_failed():
    fail = sv.PartialValidationResult("fail", reason="bad")
    (failure,) = failures_of([ALWAYS, NEVER], [None, fail], 4)
    assert (failure.lane, failure.chunk_index, failure.reason) == (1, 4, "bad")
