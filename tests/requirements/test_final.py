"""Tests of `streamval.requirements.final`."""

import asyncio

import pytest

import streamval as sv
from streamval.errors import ValidatorTimeoutError
from streamval.testing import run_virtually
from tests.support.requirements import letter
from tests.support.sources import Judge, Spoken


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


class Chunkwise(sv.Requirement):
    """Judges its chunks, and has nothing for the whole output."""

    def stream_validate(self, chunk, *, backend, ctx):
        return sv.PartialValidationResult("fail" if "bad" in chunk else "pass", reason="is bad")


class ByChunks(Chunkwise):
    judge_whole = False


class Asks(Chunkwise):
    judge_whole = True


def a_judge_that_says(answer):
    asked = []

    def speak(prompt):
        asked.append(prompt)
        return [answer]

    return asked, sv.IterableBackend(speak)


async def test_the_first_requirement_that_anyone_writes_asks_no_model():
    class NoQuestions(sv.Requirement):
        def stream_validate(self, chunk, *, backend, ctx):
            return sv.PartialValidationResult("fail" if chunk.endswith("?") else "pass")

    asked, judge = a_judge_that_says("no")
    for text, success in (("One. Two.", True), ("One. Two?", False)):
        result = await sv.Pipeline(
            Spoken(text), requirements=[NoQuestions()], validation_backend=judge
        ).run("go")
        assert result.success is success
    assert asked == []
    assert result.failures[0].requirement == "NoQuestions"


@pytest.mark.parametrize(("kind", "questions", "success"), [(Asks, 1, False), (ByChunks, 0, True)])
async def test_judge_whole_decides_whether_a_model_is_asked(kind, questions, success):
    asked, judge = a_judge_that_says("no")  # and no warning, as it would be an error here
    result = await sv.Pipeline(
        Spoken("One."), requirements=[kind("be good")], validation_backend=judge
    ).run("go")
    assert (len(asked), result.success) == (questions, success)


@pytest.mark.parametrize(
    ("output", "passes"), [("all is well", True), ("a bad end", False), ("", True)]
)
async def test_without_a_stream_the_whole_output_is_one_chunk(output, passes):
    m = sv.start_session(Spoken("never asked"))
    (verdict,) = await m.avalidate(ByChunks(), output=output)
    assert bool(verdict) is passes
    assert verdict.reason == (None if not output else "is bad")


async def test_a_function_for_the_whole_output_goes_first():
    class Both(ByChunks):
        def __init__(self):
            super().__init__("both", lambda ctx: False)

    assert not (await sv.Pipeline(Spoken("One."), requirements=[Both()]).run("go")).success
