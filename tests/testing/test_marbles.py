"""Tests of `streamval.testing.marbles`."""

import pytest
from reactivex import operators as ops

import streamval as sv
from streamval.operators import fan_out, only, rewrite, validate
from streamval.testing import FaultyBackend, chunks, from_marbles, run_virtually, to_marbles


def drawn(observable, *name, **options):
    return run_virtually(to_marbles(observable, *name, **options))[0]


@pytest.mark.parametrize(
    "diagram", ["|", "a|", "a-b---c|", "--a-(b,c)--|", "---#", "(a,|)", "-ab-c|", "----|"]
)
def test_what_is_drawn_is_what_was_played(diagram):
    assert drawn(from_marbles(diagram)) == diagram
    assert drawn(from_marbles(diagram, step=60.0), step=60.0) == diagram


def test_operators_of_chunks_are_drawn_by_their_texts():
    a, b, c = chunks("one", "two", "six")
    source = from_marbles("a---b---c|", {"a": a, "b": b, "c": c})
    assert drawn(source.pipe(rewrite(str.upper)), lambda chunk: chunk.text) == "ONE-TWO-SIX|"
    assert drawn(source.pipe(ops.delay(2.0)), lambda chunk: chunk.index) == "--0---1---2|"


def test_verdicts_and_checks():
    a, b = chunks("Fine.", "Bad!")
    source = from_marbles("a---b---a|", {"a": a, "b": b})
    calm = sv.stream_check(lambda text: text[-1] != "!", "stay calm")
    assert drawn(source.pipe(fan_out([calm])), lambda one: one.result.success[0]) == "p---f----|"
    assert drawn(source.pipe(validate([calm])), lambda one: one.success[0]) == "p---(f,|)"


def test_events_of_a_run():
    backend = FaultyBackend(2, "One. ", 3, "Two. ", 5)
    events = sv.Pipeline(backend).observe("go").pipe(only(sv.ChunkEvent, sv.CompletedEvent))
    assert drawn(events, lambda event: event.type[:2]) == "-----ch---(ch,co,|)"
