"""Tests of `streamval.types.deltas`."""

import streamval as sv
from streamval.types.deltas import MAX_REFUSAL, note
from streamval.types.thunk import GenerationMetadata


def test_the_last_report_counts_and_a_refusal_decides():
    known = GenerationMetadata("m")
    first, last = (sv.types.Usage(completion_tokens=n) for n in (1, 2))
    for delta in (sv.Delta(usage=first), sv.Delta(usage=last), sv.Delta(finish_reason="length")):
        note(delta, known)
    assert (known.usage, known.finish_reason) == (last, "length")
    for _ in range(3):
        note(sv.Delta(refusal="No. " * 200, finish_reason="stop"), known)
    assert (known.finish_reason, len(known.refusal)) == ("refusal", MAX_REFUSAL)
