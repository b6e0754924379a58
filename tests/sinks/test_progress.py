"""Tests of `streamval.sinks.progress`."""

import io

from rich.console import Console as RichConsole

import streamval as sv
from streamval.sinks import ProgressBar


async def test_it_shows_how_far_a_map_has_come():
    out = io.StringIO()
    calm = sv.stream_check(lambda text: "!" not in text, "stay calm")
    backend = sv.IterableBackend(lambda prompt: [prompt])
    pipeline = sv.Pipeline(backend, requirements=[calm])
    with ProgressBar(RichConsole(file=out, width=120)) as bar:
        async for _ in pipeline.map(["One.", "Two!", "Three."], on_progress=bar):
            pass
    assert "3/3" in out.getvalue()
    assert "2 valid, 1 failed" in out.getvalue()


def test_what_raised_is_told_and_an_unknown_total_is_a_question_mark():
    out = io.StringIO()
    with ProgressBar(RichConsole(file=out, width=120)) as bar:
        bar(sv.types.Progress(done=2, raised=1, valid=1))
    assert "2/?" in out.getvalue()
    assert "1 valid, 0 failed, 1 errors" in out.getvalue()
