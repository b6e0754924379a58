"""Tests of `streamval.pipeline.attempt`."""

import asyncio
import time

import pytest
from reactivex import operators as ops

import streamval as sv
from streamval.testing import run_virtually
from tests.support.sources import Judge, PlainJudge, Spoken, fails_on, types, watch


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
    run = sv.Pipeline(Spoken("One. ", sv.Delta("Two.", finish_reason=reason))).start("go")
    events = []
    run.subscribe(events.append)
    result = await run
    assert (result.success, result.finish_reason) == (success, reason)
    assert [attempt.finish_reason for attempt in result.attempts] == [reason]
    (done,) = (event for event in events if event.type == "streaming_done")
    assert done.finish_reason == reason
    assert events[-1].success is success


async def test_a_refusal_is_repaired_where_that_is_asked_for_and_its_words_are_the_reason():
    refusal = [sv.Delta(refusal="I would "), sv.Delta(refusal="rather not.")]
    once = Spoken(refusal, ["Never asked."])
    result = await sv.Pipeline(once, retry=sv.Repair(3)).run("go")
    assert (result.success, len(once.requests)) == (False, 1)
    backend = Spoken(refusal, ["All is well."])
    result = await sv.Pipeline(backend, retry=sv.Repair(refusals=True)).run("go")
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
    assert texts == {result.full_text} == {"*** is here. So is Bob. \n"}
    assert result.text == "*** is here. So is Bob."


async def test_the_full_text_has_no_whitespace_of_a_failure_or_behind_a_chunk_that_is_left_out():
    failing = sv.Requirement("no", lambda ctx: sv.ValidationResult(False))
    result = await sv.Pipeline(Spoken("One. \n"), requirements=[failing]).run("go")
    assert result.full_text == result.text
    only_first = ops.filter(lambda chunk: chunk.index == 0)
    run = sv.Pipeline(Spoken("One. Two. \n"), chunk_operators=[only_first])
    assert (await run.run("go")).full_text == "One."


class Asked(Spoken):
    """As a judge it says yes; it remembers whom it was asked as."""

    def script_of(self, request):
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


def verdicts(events):
    return [(e.chunk_index, e.lane, e.verdict, e.seconds) for e in events if e.type == "verdict"]


def test_verdicts_come_as_they_are_ready_with_the_seconds_that_each_lane_took():
    async def slow(_):
        await asyncio.sleep(3)
        return "pass"

    lanes = [
        Judge(slow, "slow"),
        PlainJudge("unknown", "quick"),
        sv.Requirement("x", lambda _: True),
    ]
    run = sv.Pipeline(Spoken("One. ", "Two."), requirements=lanes, emit_verdicts=True).start("go")
    events, _ = run_virtually(watch(run))
    # The quick lane is asked about both at once, the slow one about the second when it is free.
    # The third is never asked about chunks.
    assert verdicts(events) == [
        (0, 1, "unknown", 0.0),
        (1, 1, "unknown", 0.0),
        (0, 0, "pass", 3.0),
        (1, 0, "pass", 3.0),
    ]
    assert types(events)[3:9] == ["verdict", "quick_check", "chunk"] * 2


async def test_the_verdict_that_fails_comes_before_its_check_and_a_lane_cut_off_sends_none():
    hangs = Judge(lambda _: asyncio.sleep(100), "hangs")
    failing = PlainJudge(fails_on("Two."), "failing")
    pipeline = sv.Pipeline(
        Spoken("One. ", "Two. ", "Three."), requirements=[failing, hangs], emit_verdicts=True
    )
    hangs.verdict = lambda chunk: "pass" if chunk == "One." else asyncio.sleep(100)
    events = await watch(pipeline.start("go"))
    told = [e for e in events if e.type in ("verdict", "quick_check")]
    assert [(e.type, e.chunk_index) for e in told] == [
        ("verdict", 0),
        ("verdict", 0),
        ("quick_check", 0),
        ("verdict", 1),
        ("quick_check", 1),
    ]
    assert (told[3].requirement, told[3].verdict, told[3].reason) == (
        "failing",
        "fail",
        "about Two.",
    )


async def test_no_verdicts_where_they_are_not_asked_for():
    events = await watch(sv.Pipeline(Spoken("One."), requirements=[PlainJudge()]).start("go"))
    assert "verdict" not in types(events)


@pytest.mark.parametrize("emit_verdicts", [False, True])
async def test_when_the_backend_was_closed_is_told(emit_verdicts):
    before = time.time()
    pipeline = sv.Pipeline(
        Spoken(["Bad. ", "x"], ["Two."]),
        requirements=[Judge(fails_on("Bad."))],
        retry=sv.Repair(),
        emit_verdicts=emit_verdicts,
    )
    events = await watch(pipeline.start("go"))
    retry = next(event for event in events if event.type == "retry")
    assert before <= retry.closed_at <= retry.timestamp <= events[-1].closed_at
    assert events[-1].closed_at <= events[-1].timestamp


async def test_a_run_that_is_cancelled_at_once_closed_nothing():
    run = sv.Pipeline(Spoken("One.")).start("go")
    events = []
    run.subscribe(lambda event: (events.append(event), run.cancel()))
    await run
    assert types(events) == ["started", "completed"]
    assert events[-1].closed_at is None
