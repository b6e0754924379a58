"""Tests of `streamval.validation.final_check`."""

import pytest

import streamval as sv
from streamval.types.channels import CHANNELS
from streamval.types.thunk import GenerationMetadata
from streamval.validation.final_check import final_check
from streamval.validation.verdicts import failure_of

CTX = sv.types.Context()
PASSED = sv.ValidationResult(True)
NEVER = sv.Requirement("never", lambda ctx: sv.ValidationResult(False, reason="no", error="broken"))
ALWAYS = sv.Requirement("always", lambda ctx: True)


def judged(requirements, known, **written):
    clones = {channel: tuple(requirements) for channel in CHANNELS}
    written = {"text": "One.", **written}
    return final_check(clones, sv.ScriptedBackend("x"), CTX, written, known)


async def test_each_channel_on_which_something_was_written_is_judged():
    seen = []
    rule = sv.Requirement("look", lambda ctx: seen.append(str(ctx.last_output())) or True)
    check = await judged([rule], GenerationMetadata("m"), reasoning="Hm.", tool="")
    assert (seen, check.success, check.results) == (["One.", "Hm."], "pass", (PASSED,))
    no_hm = sv.Requirement("no hm", lambda ctx: str(ctx.last_output()) != "Hm.")
    check = await judged([no_hm], GenerationMetadata("m"), reasoning="Hm.")
    assert [(one.requirement, one.channel) for one in check.failures] == [("no hm", "reasoning")]


async def test_of_calls_alone_no_text_is_judged():
    check = await judged([NEVER], GenerationMetadata("m"), text=" ", tool="now {}")
    assert [one.channel for one in check.failures] == ["tool"]


async def test_each_requirement_that_fails_is_a_failure_with_its_lane():
    check = await judged([ALWAYS, NEVER], GenerationMetadata("m"))
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
    check = await judged([NEVER], known)
    assert says in check.failures[0].reason
    assert check.results == ()


def test_a_lane_that_was_cut_off_has_not_failed():
    fail = sv.PartialValidationResult("fail", reason="bad")
    assert failure_of(ALWAYS, None, 0, "text", 4) is None
    failure = failure_of(NEVER, fail, 1, "reasoning", 4)
    assert (failure.lane, failure.channel, failure.chunk_index) == (1, "reasoning", 4)
