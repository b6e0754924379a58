"""Tests of `streamval.view.html`: everything that people look at in a notebook has a picture."""

import base64
import re

import pytest
from pydantic import BaseModel

import streamval as sv
from streamval.view.html import to_html as picture
from tests.support.sources import PlainJudge, Spoken, fails_on, watch
from tests.test_events import EVENTS

EVIL = "<script>alert(1)</script>"
CHUNK = sv.Chunk(f"One. {EVIL}", 3, 10, 14, " ")


async def results():
    judge = PlainJudge(fails_on("Bad!"), EVIL)
    backend = Spoken(["Fine. ", "Bad! ", "x"], [f" Good {EVIL}."], supports_prefix=True)
    pipeline = sv.Pipeline(backend, requirements=[judge], retry=sv.Repair(loop_budget=3))
    return pipeline, await pipeline.run("go")


async def test_pipeline_run_result_and_attempt():
    pipeline, result = await results()
    run = pipeline.start("go")
    drawn = re.search(
        r'base64,([^"]+)" alt="faulty, cut by sentence, judged by', pipeline._repr_html_()
    )
    diagram = base64.b64decode(drawn[1]).decode()
    assert EVIL not in diagram
    assert "merge" in diagram
    assert "continue or restart, up to 3 attempts in all" in diagram
    assert "not started" in run._repr_html_()
    assert repr(run) == "<Run of 'faulty': not started, 0 characters>"
    await run
    assert "over" in run._repr_html_()
    assert "<del>" in result._repr_html_()
    assert "about Bad!" in result.attempts[0]._repr_html_()
    for thing in (pipeline, run, result, *result.attempts):
        made = thing._repr_html_()
        assert EVIL not in made
        assert "<script" not in made


async def test_typed_output_and_sound():
    result = await sv.Pipeline(sv.ScriptedBackend('{"a": 1}'), format=dict[str, int]).run("go")
    assert "{&#x27;a&#x27;: 1}" in result._repr_html_()
    sound = sv.Pipeline(
        sv.IterableBackend(lambda _: [b"\x00" * 3200]), chunking=sv.chunkers.FrameChunker(0.1)
    )
    run = sound.start("go")
    result = await run
    assert "3,200 bytes" in result._repr_html_()
    assert "3,200 bytes" in run._repr_html_()
    assert "bytes" in (await watch(sound.start("go")))[1].chunk()._repr_html_()


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_events(event):
    made = event._repr_html_()
    assert type(event).__name__ in made
    assert "<script" not in made


def test_a_chunk_with_its_verdicts():
    fail = sv.PartialValidationResult("fail", reason=EVIL)
    check = sv.validation.Check(CHUNK, "fail", (sv.PartialValidationResult("pass"), fail, None))
    made = check._repr_html_()
    for said in ("chunk 3, 10 to 14", "lane 0", "fail: &lt;script", "cut off"):
        assert said in made
    whole = sv.validation.Check(None, "fail", (sv.ValidationResult(False, reason="<b>no"),))
    assert "the whole output" in whole._repr_html_()
    assert "fail: &lt;b&gt;no" in whole._repr_html_()
    assert "lane 1" in sv.validation.Verdict(1, CHUNK, fail)._repr_html_()
    assert EVIL not in made + CHUNK._repr_html_()


def test_what_has_no_picture():
    with pytest.raises(TypeError, match="int has no picture"):
        picture(7)


class Rude(BaseModel):
    a: int

    def __repr__(self):
        raise OSError("no")


async def test_a_value_that_cannot_be_shown_is_named():
    result = await sv.Pipeline(sv.ScriptedBackend('{"a": 1}'), format=Rude).run("go")
    assert "a Rude" in result._repr_html_()


async def test_a_restart_kept_nothing_however_alike_the_texts_are():
    judge = PlainJudge(lambda chunk: "fail" if "bad" in chunk else "pass")
    backend = Spoken(["The sea is bad. ", "More ", "of it. "], ["The sea is fine."])
    pipeline = sv.Pipeline(backend, requirements=[judge], retry=sv.Repair(mode="restart"))
    made = (await pipeline.run("go"))._repr_html_()
    assert "began again" in made
    assert "<del>The sea is bad." in made
    assert "</del>The sea is fine.</div>" in made


async def test_what_an_operator_made_of_the_text_is_what_is_shown():
    redact = sv.operators.rewrite(lambda text: "…")
    pipeline = sv.Pipeline(Spoken("One. ", "Two."), chunk_operators=[redact])
    assert "… …" in (await pipeline.run("go"))._repr_html_()
