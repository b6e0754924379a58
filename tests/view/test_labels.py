"""Tests of `streamval.view.labels`."""

import contextlib

import pytest

import streamval as sv
from streamval.view import RunView
from streamval.view.labels import outcome, standing, taken_back
from tests.support.sources import PlainJudge, Spoken, fails_on


async def folded(pipeline, leave_at=None):
    view, seen = RunView(), []
    run = pipeline.start("go")

    def look(event):
        view.apply(event)
        seen.append(view.snapshot())
        if event.type == leave_at:
            run.cancel()

    run.subscribe(look)
    with contextlib.suppress(OSError):
        await run
    return seen


@pytest.mark.parametrize(
    ("said", "leave_at", "says"),
    [
        (["One."], None, "valid after 1 attempt · 1 tokens spent"),
        (["Bad! ", "x"], None, "not valid after 1 attempt · 2 tokens spent · 2 thrown away"),
        (["One. ", "Two."], "chunk", "cut short after 1 attempt · 2 tokens spent · 2 thrown away"),
        (
            ["One. ", OSError("x")],
            None,
            "broken off after 1 attempt · 1 tokens spent · 1 thrown away",
        ),
        (
            ["One. ", sv.Delta("Two.", finish_reason="length")],
            None,
            "valid after 1 attempt · 2 tokens spent · cut off at 2 tokens (finished() refuses that)",
        ),
        (
            ["One. ", sv.Delta(finish_reason="content_filter")],
            None,
            "not valid after 1 attempt · 1 tokens spent · cut off by the provider's content filter",
        ),
    ],
)
async def test_the_outcome_in_words(said, leave_at, says):
    pipeline = sv.Pipeline(Spoken(*said), requirements=[PlainJudge(fails_on("Bad!"))])
    seen = await folded(pipeline, leave_at)
    assert "".join(words.text for words in outcome(seen[-1])).startswith(says)


async def test_what_was_rejected_last_until_something_new_comes():
    backend = Spoken(["Fine. ", "Bad! ", "x"], [" Good."], supports_prefix=True)
    pipeline = sv.Pipeline(
        backend, requirements=[PlainJudge(fails_on("Bad!"))], retry=sv.Repair(), emit_tokens=True
    )
    seen = await folded(pipeline)
    pairs = [standing(snapshot) for snapshot in seen]
    assert ("Fine.", " Bad! x") in pairs
    assert pairs[-1] == ("Fine. Good.", "")
    assert taken_back(seen[-1]) == [False, True, False]
