"""Tests of `streamval.pipeline.repair`."""

from dataclasses import replace

import pytest

import streamval as sv
from streamval.backends.base import GenerationRequest
from streamval.errors import UsageError
from streamval.types.messages import Message
from tests.support.sources import Judge, Spoken, fails_on

FAILURES = [sv.types.Failure("be calm", "it shouts", 2), sv.types.Failure("be {short}")]


def request(**options):
    return GenerationRequest((Message("system", "S"), Message("user", "Say {x}.")), options=options)


def test_every_failure_and_its_reason_goes_into_the_prompt():
    asked = sv.Repair().request(request(), request(), FAILURES)
    system, user = asked.messages
    assert system == Message("system", "S")
    assert "- be calm: it shouts\n- be {short}" in user.content
    assert user.content.endswith("Say {x}.")


def test_templates():
    text = sv.Repair(template="{prompt} Mind: {failures} {other}")
    assert text.request(request(), request(), FAILURES[:1]).messages[-1].content == (
        "Say {x}. Mind: - be calm: it shouts {other}"
    )
    fn = sv.Repair(template=lambda prompt, failures: f"{prompt}!{len(failures)}")
    assert fn.request(request(), request(), FAILURES).messages[-1].content == "Say {x}.!2"


def test_a_new_attempt_never_replays_the_last_one():
    options = request(seed=7, temperature=0, max_tokens=5)
    assert sv.Repair().request(
        options, replace(options, attempt=2), FAILURES, prefix="pre"
    ).options == {"seed": 9, "temperature": 0.7, "max_tokens": 5}
    assert sv.Repair().request(request(temperature=0.2), request(), []).options == {
        "temperature": 0.2
    }


@pytest.mark.parametrize(
    "wrong",
    [{"loop_budget": 0}, {"loop_budget": 1.5}, {"mode": "again"}, {"template": "no placeholder"}],
)
def test_wrong_arguments_are_refused(wrong):
    with pytest.raises(UsageError):
        sv.Repair(**wrong)


async def test_a_backend_that_cannot_continue_is_refused_for_continue():
    with pytest.raises(UsageError, match="cannot continue a prefix"):
        sv.Pipeline(Spoken("One."), retry=sv.Repair(mode="continue"))


async def test_a_limit_on_tokens_is_a_limit_on_the_output():
    backend = Spoken(
        ["Good.", " Two.", " Bad."], [" Fine.", " Bad."], [" Well."], supports_prefix=True
    )
    pipeline = sv.Pipeline(
        backend,
        requirements=[Judge(fails_on("Bad."))],
        retry=sv.Repair(loop_budget=3),
        options={"max_tokens": 10},
    )
    assert (await pipeline.run("go")).success
    assert [request.options["max_tokens"] for request in backend.requests] == [10, 8, 7]


async def test_a_restart_has_the_whole_limit():
    backend = Spoken(["Good. ", "Bad. "], ["Well."])
    pipeline = sv.Pipeline(
        backend,
        requirements=[Judge(fails_on("Bad."))],
        retry=sv.Repair(),
        options={"max_tokens": 10},
    )
    await pipeline.run("go")
    assert [request.options["max_tokens"] for request in backend.requests] == [10, 10]
