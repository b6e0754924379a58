"""Tests of `streamval.requirements.whole`."""

import asyncio

import pytest

import streamval as sv
from streamval.errors import ValidatorTimeoutError
from tests.support.requirements import letter
from tests.support.sources import Judge, Spoken
from tests.support.virtual_time import run_virtually


async def test_the_timeout_of_a_wrapped_requirement_holds():
    async def slowly(ctx):
        await asyncio.Event().wait()

    m = sv.start_session(Spoken('{"result": "rude"}'))
    with pytest.raises(TimeoutError):
        await letter(m, name="Ann", requirements=[sv.req("slow", slowly, timeout=0.05)])


@pytest.mark.parametrize("on_error", ["raise", "fail", "pass"])
def test_on_error_and_timeout_hold_for_the_final_validation(on_error):
    async def hangs(ctx):
        await asyncio.Event().wait()

    requirement = sv.Requirement("slow", hangs, timeout=3, on_error=on_error)
    run = sv.Pipeline(Spoken("One."), requirements=[requirement]).run("go")
    if on_error == "raise":
        with pytest.raises(ValidatorTimeoutError, match="within 3 seconds"):
            run_virtually(run)
    else:
        result, seconds = run_virtually(run)
        assert (result.success, seconds) == (on_error == "pass", 3)
        assert "could not judge" in result.validations[0].reason


async def test_a_final_validation_that_raises_ends_the_run_and_cancels_its_peers():
    boom = OSError("judge")
    run = sv.Pipeline(Spoken("One."), requirements=[Judge(whole=lambda _: boom)]).start("go")
    events = []
    run.subscribe(events.append)
    with pytest.raises(OSError, match="judge") as raised:
        await run
    assert raised.value is boom
    assert [event.type for event in events][-2:] == ["error", "completed"]
