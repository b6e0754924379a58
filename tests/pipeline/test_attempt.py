"""Tests of `streamval.pipeline.attempt`."""

import pytest
from reactivex import operators as ops

import streamval as sv
from tests.support.sources import Judge, Spoken, fails_on, watch


async def test_a_failed_tail_begins_again_and_is_no_success_by_silence():
    good = sv.stream_check(lambda p: ("bad" not in p, "has bad"), chunking="paragraph")
    backend = sv.ScriptedBackend(["Fine.\n\nThis is good. This is bad.", " "], supports_prefix=True)
    events = await watch(sv.Pipeline(backend, requirements=[good], retry=sv.Repair()).start("go"))
    retry = next(event for event in events if event.type == "retry")
    assert (retry.mode, retry.keep_chunks) == ("restart", 0)
    assert "bad" not in events[-1].full_text


async def test_an_empty_continuation_still_judges_what_a_lane_held_back():
    asked = []
    coarse = Judge(lambda p: asked.append(p) or "pass", chunking="paragraph")
    backend = Spoken(["One. ", "Two. ", "Bad. ", "x"], [" "], supports_prefix=True)
    result = await sv.Pipeline(
        backend, requirements=[coarse, Judge(fails_on("Bad."))], retry=sv.Repair()
    ).run("go")
    assert asked == ["One. Two."]
    assert result.text == "One. Two."


async def test_an_operator_that_has_enough_makes_no_success():
    never = sv.Requirement("never", lambda ctx: False)
    result = await sv.Pipeline(
        sv.ScriptedBackend("One. Two."), requirements=[never], chunk_operators=[ops.take(1)]
    ).run("go")
    assert (result.success, result.text) == (False, "One.")


@pytest.mark.parametrize(
    ("place", "success"), [("delta_operators", True), ("chunk_operators", False)]
)
async def test_where_an_operator_ends_the_stream_says_whether_the_rest_is_missing(place, success):
    backend = Spoken("One. ", "Two. ", "Three.")
    result = await sv.Pipeline(backend, **{place: [ops.take(1)]}).run("go")
    assert (result.success, result.text) == (success, "One.")
    assert backend.closed == 1


async def test_an_operator_that_takes_all_of_it_changes_nothing():
    result = await sv.Pipeline(Spoken("One. ", "Two."), delta_operators=[ops.take(9)]).run("go")
    assert (result.success, result.text) == (True, "One. Two.")
