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


@pytest.mark.parametrize(
    ("reason", "success"),
    [(None, True), ("stop", True), ("length", True), ("content_filter", False), ("refusal", False)],
)
async def test_the_finish_reason_is_told_and_counts(reason, success):
    run = sv.Pipeline(Spoken("One. ", sv.Delta("Two.", None, reason))).start("go")
    events = []
    run.subscribe(events.append)
    result = await run
    assert (result.success, result.finish_reason) == (success, reason)
    assert [attempt.finish_reason for attempt in result.attempts] == [reason]
    (done,) = (event for event in events if event.type == "streaming_done")
    assert done.finish_reason == reason
    assert events[-1].success is success


async def test_a_refusal_is_repaired_and_its_words_are_the_reason():
    refusal = [sv.Delta(refusal="I would "), sv.Delta(refusal="rather not.")]
    backend = Spoken(refusal, ["All is well."])
    result = await sv.Pipeline(backend, retry=sv.Repair()).run("go")
    assert (result.success, result.text) == (True, "All is well.")
    (failure,) = result.attempts[0].failures
    assert failure.reason == "the model refused: I would rather not."


async def test_a_refusal_without_end_is_kept_to_its_beginning():
    backend = Spoken(*[sv.Delta(refusal="no " * 100)] * 100)
    result = await sv.Pipeline(backend).run("go")
    assert len(result.failures[0].reason) < 1100


async def test_the_full_text_of_every_event_is_what_was_delivered():
    hidden = sv.operators.rewrite(lambda text: text.replace("Ann", "***"))
    run = sv.Pipeline(Spoken("Ann is here. ", "So is Bob. \n"), chunk_operators=[hidden]).start(
        "go"
    )
    events = []
    run.subscribe(events.append)
    result = await run
    texts = {event.full_text for event in events if hasattr(event, "full_text")}
    assert texts == {result.text} == {"*** is here. So is Bob."}


class Asked(Spoken):
    """As a judge it says yes; it remembers whom it was asked as."""

    def deltas_of(self, request):
        return ["yes"] if "Requirement:" in request.messages[0].content else ["All is well."]


async def test_a_judge_goes_where_the_generation_goes():
    backend = Asked()
    pipeline = sv.Pipeline(
        backend, requirements=["be kind"], options={"api_base": "http://there", "seed": 4}
    )
    await pipeline.run("go", api_key="key", temperature=0.9)
    generation, judgement = backend.requests
    assert generation.options["api_base"] == judgement.options["api_base"] == "http://there"
    assert judgement.options["api_key"] == "key"
    assert "seed" not in judgement.options  # which is of the output, and not of the way to it
    assert judgement.options["temperature"] == 0.0


async def test_a_validation_backend_goes_its_own_way():
    backend, judge = Asked(), Asked()
    await sv.Pipeline(
        backend,
        requirements=["be kind"],
        validation_backend=judge,
        options={"api_base": "http://there"},
    ).run("go")
    assert "api_base" not in judge.requests[0].options


async def test_an_error_event_shows_no_key(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "key-of-the-environment")
    error = LookupError("who is key-of-the-run, and who key-of-the-environment?")
    run = sv.Pipeline(Spoken(error)).start("go", token="key-of-the-run")
    events = []
    run.subscribe(events.append)
    with pytest.raises(LookupError):
        await run
    assert events[-2].detail == "who is ***, and who ***?"
