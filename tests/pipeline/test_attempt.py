"""Tests of `streamval.pipeline.attempt`."""

import asyncio

import pytest
from reactivex import operators as ops

import streamval as sv
from streamval import requirements as reqs
from streamval.chunkers import FrameChunker
from streamval.errors import (
    DeltaTypeError,
)
from streamval.operators import rewrite
from tests.support.sources import Judge, Spoken, fails_on, types, watch
from tests.support.voice import sliced, speech


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


@pytest.mark.parametrize("place", ["delta_operators", "chunk_operators"])
async def test_timed_operators_stay_on_the_loop(place):
    pipeline = sv.Pipeline(sv.ScriptedBackend("One. Two."), **{place: [ops.delay(0.01)]})
    async with asyncio.timeout(5):
        assert (await pipeline.run("go")).text == "One. Two."


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_an_empty_output_is_no_index_error(text):
    calm = sv.stream_check(lambda sentence: sentence[-1] != "!", "stay calm")
    assert (
        await sv.Pipeline(sv.ScriptedBackend(text or " "), requirements=[calm]).run("x")
    ).success


async def test_a_delta_that_only_reports_and_a_chunking_of_its_own():
    usage = sv.Usage(completion_tokens=3, source="backend")
    backend = Spoken(*sliced(speech(0.6), 777), sv.Delta(usage=usage))
    result = await sv.Pipeline(
        backend,
        requirements=[reqs.no_clipping(chunking=FrameChunker(0.1))],
        chunking=FrameChunker(0.25),
    ).run("x")
    assert result.success
    assert result.usage.completion_tokens == 3


async def test_delta_and_chunk_operators():
    shout = ops.map(str.upper)
    pipeline = sv.Pipeline(
        sv.ScriptedBackend("call 555. now."),
        chunking="sentence",
        delta_operators=[shout],
        chunk_operators=[rewrite(lambda text: text.replace("555", "***"))],
    )
    events = await watch(pipeline.start("go"))
    chunks = [event for event in events if event.type == "chunk"]
    assert [chunk.text for chunk in chunks] == ["CALL ***.", "NOW."]
    done = next(event for event in events if event.type == "streaming_done")
    assert [done.full_text[c.start : c.end] for c in chunks] == ["CALL 555.", "NOW."]
    assert events[-1].full_text == "CALL ***. NOW."


@pytest.mark.parametrize("place", ["delta_operators", "chunk_operators"])
async def test_what_an_operator_raises_ends_the_run(place):
    backend = Spoken("One. ", "Two. ", "Three.")
    pipeline = sv.Pipeline(backend, **{place: [ops.map(lambda _: 1 / 0)]})
    run = pipeline.start("go")
    seen = []
    run.subscribe(seen.append)
    with pytest.raises(ZeroDivisionError):
        await run
    assert types(seen)[-2:] == ["error", "completed"]
    assert backend.closed == 1


async def test_tokens_come_before_any_check():
    pipeline = sv.Pipeline(Spoken("One. ", "Two."), requirements=[Judge()], emit_tokens=True)
    assert types(await watch(pipeline.start("go")))[:5] == [
        *("started", "token", "token", "quick_check", "chunk"),
    ]


async def test_without_requirements_there_are_no_checks():
    assert types(await watch(sv.Pipeline(Spoken("One.")).start("go"))) == [
        *("started", "chunk", "streaming_done", "completed"),
    ]


@pytest.mark.parametrize("delta", [None, b"bytes", ["text"], sv.Delta(None)])
async def test_a_backend_that_yields_no_text_is_told(delta):
    backend = Spoken("One. ", delta)
    run = sv.Pipeline(backend).start("go")
    seen = []
    run.subscribe(seen.append)
    with pytest.raises(DeltaTypeError, match="where text is expected"):
        await run
    assert types(seen)[-2:] == ["error", "completed"]
    assert backend.closed == 1
