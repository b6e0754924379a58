"""Tests of `streamval.pipeline.delta_reader`."""

import pytest

import streamval as sv
from streamval.errors import DeltaTypeError
from streamval.pipeline.delta_reader import DeltaReader


def test_it_returns_text_and_keeps_what_the_backend_reports():
    reader = DeltaReader("m", str)
    usage = sv.types.Usage(prompt_tokens=3, completion_tokens=9, source="backend")
    deltas = ["One ", sv.Delta("two."), sv.Delta(finish_reason="stop"), sv.Delta(usage=usage), ""]
    assert [reader.read(delta) for delta in deltas] == ["One ", "two.", None, None, None]
    assert (reader.known.deltas, reader.known.finish_reason) == (2, "stop")
    assert reader.usage == usage


def test_plain_text_behind_half_a_character_does_not_overtake_it():
    reader = DeltaReader("m", str)
    read = [reader.read(delta) for delta in ("x\ud83d", "a", "A")]
    assert "".join(read) + reader.flush() == "x\ufffdaA"


def test_half_a_character_waits_for_the_other_half():
    reader = DeltaReader("m", str)
    assert [reader.read(piece) for piece in ("a\ud83d", "\ude00", "\ud83d")] == [
        "a",
        "\U0001f600",
        None,
    ]
    assert reader.flush() == "\ufffd"
    assert reader.known.deltas == 3


@pytest.mark.parametrize(
    ("kind", "delta"),
    [(str, b"sound"), (str, sv.Delta(b"sound")), (str, None), (bytes, "text"), (bytes, 7)],
)
def test_content_of_another_kind_is_refused(kind, delta):
    with pytest.raises(DeltaTypeError):
        DeltaReader("m", kind).read(delta)
