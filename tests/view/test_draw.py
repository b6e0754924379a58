"""Tests of `streamval.view.draw`."""

import pytest

import streamval as sv
from streamval.errors import UsageError
from streamval.view.draw import events_of, view_of
from tests.support.sources import PlainJudge, Spoken, fails_on, watch


def repaired(*said, **options):
    judge = PlainJudge(fails_on("Bad!"), "calm")
    backend = Spoken(*said, supports_prefix=True)
    return sv.Pipeline(
        backend,
        requirements=[judge],
        retry=sv.Repair(**options),
        emit_tokens=True,
        emit_verdicts=True,
    )


async def test_a_recording_events_and_a_result_are_drawn(tmp_path):
    run, seen = repaired(["Fine. ", "Bad! ", "x"], [" Good."]).start("go"), sv.sinks.Collect()
    run.subscribe(seen)
    run.subscribe(sv.sinks.JSONL(tmp_path / "run.jsonl"))
    result = await run
    from_events = sv.draw(seen.events, tmp_path / "events.svg")
    assert from_events == sv.draw(tmp_path / "run.jsonl")
    assert (tmp_path / "events.svg").read_text() == from_events
    assert "calm: fail on chunk 1" in from_events
    from_result = sv.draw(result)
    assert "calm: fail on chunk 1" in from_result
    assert "deltas" not in from_result  # of which a result knows nothing
    page = sv.draw(seen.events, tmp_path / "page.html")
    assert page.startswith("<!doctype html>")
    assert "<del> Bad! x</del>" in page
    assert from_events._repr_html_().startswith('<img src="data:image/svg+xml;base64,')
    assert "sandbox srcdoc" in page._repr_html_()


@pytest.mark.parametrize(
    ("said", "options", "struck", "modes"),
    [
        ([["Fine. ", "Bad! ", "x"], [" Good."]], {}, [" Bad! x"], ["continue"]),
        (
            [["Fine. ", "Bad! ", "x"], ["Good. ", "Bad! ", "x"], ["So."]],
            {"loop_budget": 3, "mode": "restart"},
            ["Fine. Bad! x", "Good. Bad! x"],
            ["restart", "restart"],
        ),
        ([["Fine. ", "Bad! ", "x"], [" Bad! ", "x"]], {}, [" Bad! x", " Bad! x"], ["continue"]),
    ],
)
async def test_a_result_tells_what_was_struck_out(said, options, struck, modes):
    result = await repaired(*said, **options).run("go")
    view = view_of(result)
    shown = view.snapshot()
    assert view.text == result.text
    assert [
        "".join(segment["text"] for segment in shown["text"][slice(*attempt["taken_back"])])
        for attempt in shown["attempts"]
        if attempt["taken_back"]
    ] == struck
    assert [attempt["mode"] for attempt in shown["attempts"][:-1]] == modes
    assert (shown["state"] == "valid") == result.success
    assert len(list(events_of(result))) < 20


async def test_of_several_runs_in_a_recording_the_first(tmp_path):
    path = tmp_path / "runs.jsonl"
    for text in ("One.", "Two."):
        run = sv.Pipeline(Spoken(text)).start("go")
        run.subscribe(sv.sinks.JSONL(path))
        await run
    assert view_of(path).text == "One."


@pytest.mark.parametrize(
    ("source", "path", "says"),
    [
        ([], None, "contains no run; record one with"),
        (["text"], None, "draw takes a recording, events or a result, not strs"),
        ("no such file.jsonl", None, "cannot read the recording"),
        ([], "drawing.png", "saved as .svg or .html, not as 'drawing.png'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(source, path, says):
    with pytest.raises(UsageError, match=says.replace(".", r"\.")):
        sv.draw(source, path)


async def test_where_it_cannot_be_saved_is_said(tmp_path):
    events = await watch(sv.Pipeline(Spoken("One.")).start("go"))
    with pytest.raises(UsageError, match=r"cannot save the drawing as .*: No such file"):
        sv.draw(events, tmp_path / "no folder/a.svg")
