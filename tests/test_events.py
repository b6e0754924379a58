"""Tests of `streamval.events`."""

import pytest
from pydantic import ValidationError

import streamval as sv
from streamval.events import BaseEvent, EventAdapter

HEAD = {"run_id": "r", "attempt": 1}


EVENTS = [
    sv.StartedEvent(**HEAD, model="m", requirements=("a", "b"), chunking="sentence"),
    sv.TokenEvent(**HEAD, text="Hi"),
    sv.QuickCheckEvent(
        **HEAD,
        chunk_index=0,
        passed=False,
        verdict="fail",
        results=(sv.PartialValidationResult("fail", reason="é", score=0.5), None),
    ),
    sv.VerdictEvent(
        **HEAD, chunk_index=0, lane=1, requirement="b", verdict="unknown", reason=None, seconds=0.5
    ),
    sv.ChunkEvent(**HEAD, text="Hi.", chunk_index=0, start=1, end=4, separator=" "),
    sv.ChunkEvent(**HEAD, text="", chunk_index=1, start=4, end=6, separator="", audio=b"\x00\xff"),
    sv.ReasoningEvent(**HEAD, text="Hm.", chunk_index=0, start=0, end=3, separator=""),
    sv.ToolCallEvent(
        **HEAD, index=0, id="c1", name="now", arguments={"at": [1, None]}, raw='{"at": [1, null]}'
    ),
    sv.PartialObjectEvent(**HEAD, path="$.a", value={"b": [1, None]}, stage="output"),
    sv.events.StageEvent(**HEAD, stage="pre", status="failed", reason="why"),
    sv.StreamingDoneEvent(**HEAD, full_text=" Hi.", finish_reason="length"),
    sv.FullValidationEvent(
        **HEAD,
        passed=False,
        results=(sv.ValidationResult(True), sv.ValidationResult(False, error=ValueError("x"))),
    ),
    sv.RetryEvent(
        **HEAD,
        reason="why",
        failures=(sv.types.Failure("a", "why", 3),),
        mode="continue",
        keep_chunks=3,
    ),
    sv.ErrorEvent(**HEAD, exception_type="OSError", detail="gone"),
    sv.CompletedEvent(
        **HEAD,
        success=True,
        full_text="Hi.",
        attempts_used=1,
        usage=sv.types.Usage(7, 3, 1, 0, "mixed"),
    ),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_events_survive_the_round_trip_unchanged(event):
    assert EventAdapter.validate_json(EventAdapter.dump_json(event)) == event
    assert EventAdapter.validate_python(EventAdapter.dump_python(event)) == event


def test_every_event_is_here():
    assert {type(event) for event in EVENTS} == set(BaseEvent.__subclasses__())


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_events_are_frozen(event):
    with pytest.raises(ValidationError):
        event.attempt = 2


def test_live_objects_stay_out_of_json_and_equality():
    with_thunk = sv.ValidationResult(True, thunk=object(), context=object())
    event = sv.FullValidationEvent(**HEAD, passed=True, results=(with_thunk,))
    assert b"thunk" not in EventAdapter.dump_json(event)
    assert EventAdapter.validate_json(EventAdapter.dump_json(event)) == event


def test_an_unknown_type_is_refused():
    with pytest.raises(ValidationError):
        EventAdapter.validate_json('{"type": "surprise", "run_id": "r", "attempt": 1}')
