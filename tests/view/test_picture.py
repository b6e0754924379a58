"""Tests of `streamval.view.picture`."""

import contextlib

import pytest

import streamval as sv
from streamval.view import RunView
from streamval.view.picture import fields_picture, run_picture
from tests.support.sources import PlainJudge, Spoken, fails_on, thinking_and_calling


async def picture_of(pipeline):
    view = RunView()
    with contextlib.suppress(OSError):
        async for event in pipeline.start("go"):
            view.apply(event)
    return run_picture(view.snapshot())


async def test_a_run_with_what_was_taken_back_struck_out():
    backend = Spoken(["Fine. ", "Bad! ", "x"], [" Good."], supports_prefix=True)
    calm = PlainJudge(fails_on("Bad!"), "calm")
    made = await picture_of(
        sv.Pipeline(backend, requirements=[calm], retry=sv.Repair(), emit_tokens=True)
    )
    assert "Fine.<del> Bad! x</del> Good." in made
    assert "calm: about Bad!" in made
    assert "went on from there" in made
    assert "valid</span>" in made


@pytest.mark.parametrize("evil", ["<b>x</b>", "'\"><script>", "\x1b[31m", "\u202e", "\ufffe"])
async def test_what_others_wrote_is_text(evil):
    judge = PlainJudge(lambda _: sv.PartialValidationResult("fail", reason=evil), evil)
    backend = sv.IterableBackend(lambda _: [f"{evil} one. ", "Two."], model=evil)
    made = await picture_of(sv.Pipeline(backend, requirements=[judge], emit_tokens=True))
    assert evil not in made
    assert evil not in await picture_of(sv.Pipeline(Spoken("One. ", OSError(evil))))
    assert evil not in fields_picture(evil, {evil: evil})


def test_a_run_in_its_middle_shows_what_is_pending():
    view, head = RunView(), {"run_id": "r", "attempt": 1}
    view.apply(sv.StartedEvent(**head, model="m", chunking="sentence"))
    view.apply(sv.TokenEvent(**head, text="One. Tw"))
    view.apply(sv.ChunkEvent(**head, text="One.", chunk_index=0, start=0, end=4, separator=""))
    assert '<span class="pending"> Tw</span>' in run_picture(view.snapshot())


async def test_reasoning_is_folded_and_calls_have_a_row():
    made = await picture_of(thinking_and_calling())
    assert '<details class="reasoning"><summary>reasoning, 3 words</summary>Let me see.' in made
    assert "<del>weather({&quot;city&quot;: &quot;Rome&quot;})</del>" in made
    assert "<code>weather({&quot;city&quot;: &quot;Oslo&quot;})</code>" in made
