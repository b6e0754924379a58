"""Tests of `streamval.requirements.audio`."""

import asyncio

import pytest

import streamval as sv
from streamval import requirements as reqs
from streamval.chunkers import FrameChunker, SilenceChunker
from streamval.errors import DeltaTypeError, UsageError
from tests.support.sources import Spoken, types, watch
from tests.support.voice import RATE, clipped, silence, sliced, speech

SECOND = RATE * 2


# Goes wrong in its third second, and would go on for ten.
VOICE = speech(2.3) + clipped(speech(1.0)) + speech(7.0)


def pipeline(sound, *requirements, chunking=None, size=777, **options):
    backend = Spoken(*sliced(sound, size), asyncio.Event().wait)
    chunking = chunking or (lambda: FrameChunker(0.25))
    return backend, sv.Pipeline(backend, requirements=requirements, chunking=chunking, **options)


async def test_a_voice_that_goes_wrong_in_its_third_second_is_stopped_there():
    backend, speaking = pipeline(VOICE, reqs.no_clipping())
    result = await speaking.run("Say something.")
    assert not result.success
    assert "at full scale" in result.failures[0].reason
    assert 2.0 <= len(result.audio) / SECOND <= 2.5
    assert result.audio == VOICE[: len(result.audio)]
    assert len(result.attempts[0].audio) / SECOND < 3.0
    assert (result.text, backend.closed) == ("", 1)


async def test_a_restart_begins_anew():
    backend = Spoken(sliced(VOICE, 5000), sliced(speech(1.0), 5000))
    result = await sv.Pipeline(
        backend,
        requirements=[reqs.no_clipping()],
        chunking=lambda: FrameChunker(0.25),
        retry=sv.Repair(),
    ).run("go")
    assert result.success
    assert result.audio == speech(1.0)


async def test_segments_at_pauses():
    sound = speech(4.0)
    backend = Spoken(*sliced(sound, 333))
    run = sv.Pipeline(backend, chunking=SilenceChunker).start("go")
    chunks = [chunk async for chunk in run.chunks()]
    assert len(chunks) >= 3
    assert b"".join(chunk.text for chunk in chunks) == sound


async def test_a_requirement_may_cut_in_its_own_way():
    _, speaking = pipeline(
        VOICE,
        reqs.no_clipping(chunking=lambda: FrameChunker(0.1)),
        chunking=lambda: FrameChunker(1.0),
    )
    result = await speaking.run("go")
    assert len(result.audio) == 2 * SECOND


@pytest.mark.parametrize("size", [100, 3333, 10**6])
@pytest.mark.parametrize(
    ("requirement", "sound", "reason"),
    [
        (lambda: reqs.no_clipping(), clipped(speech(0.5)), "at full scale"),
        (lambda: reqs.no_silence(1.0), speech(0.5) + silence(1.5), "1.00 seconds of silence"),
        (lambda: reqs.level(at_least=-40), speech(0.5) + silence(1.0), "at least -40 is wanted"),
        (lambda: reqs.level(at_most=-30), speech(1.0), "at most -30 is wanted"),
    ],
)
async def test_each_rule_fails_what_breaks_it(requirement, sound, reason, size):
    _, speaking = pipeline(sound + speech(1.0), requirement(), size=size)
    result = await speaking.run("go")
    assert reason in result.failures[0].reason
    whole = await requirement().validate(
        None, sv.types.Context(output=sv.types.ModelOutputThunk(sound))
    )
    assert not whole or "level" in requirement().description


async def test_a_good_voice_passes_them_all():
    sound = speech(3.0)
    rules = [reqs.no_clipping(), reqs.no_silence(2.0), reqs.level(at_most=-3)]
    result = await sv.Pipeline(
        Spoken(*sliced(sound, 4001)), requirements=rules, chunking=FrameChunker(1.0)
    ).run("go")
    assert result.success, result.failures
    assert result.audio == sound


async def test_bytes_for_a_chunker_of_text_and_text_for_one_of_sound():
    with pytest.raises(DeltaTypeError, match="choose a chunker that takes bytes"):
        await sv.Pipeline(Spoken(b"\0\0")).run("go")
    with pytest.raises(DeltaTypeError, match="where sound is expected"):
        await sv.Pipeline(Spoken("text"), chunking=FrameChunker()).run("go")


async def test_a_rule_of_sound_in_a_pipeline_of_text():
    with pytest.raises(UsageError, match="judges sound, and the pipeline is one of text"):
        sv.Pipeline(Spoken("One."), requirements=[reqs.no_clipping()])


@pytest.mark.parametrize(
    "rule",
    [
        reqs.word_limit(at_most=5),
        reqs.forbidden_words(["never"]),
        reqs.no_secrets(),
        reqs.NoRepetition(),
        reqs.matches(dict),
        reqs.readable_markdown(),
        sv.LLMaJRequirement("sounds nice"),
    ],
    ids=lambda rule: rule.name,
)
def test_a_rule_of_text_in_a_pipeline_of_sound(rule):
    with pytest.raises(UsageError, match="judges text, and the pipeline is one of sound"):
        sv.Pipeline(Spoken(b"\0\0"), requirements=[rule], chunking=FrameChunker)


@pytest.mark.parametrize(
    "make",
    [
        lambda: reqs.level(),
        lambda: reqs.level(at_least=-3, at_most=-9),
        lambda: reqs.no_silence(0),
        lambda: reqs.no_clipping(run=0),
    ],
)
def test_bounds_that_cannot_work(make):
    with pytest.raises(UsageError):
        make()


async def test_the_events_of_a_watch(reported):
    events = await watch(
        sv.Pipeline(Spoken(*sliced(speech(0.5), 999)), chunking=FrameChunker(0.25)).start("go")
    )
    assert types(events) == ["started", "chunk", "chunk", "streaming_done", "completed"]
    assert reported == []


async def test_a_rule_of_sound_starts_afresh_in_each_run():
    rule = reqs.no_silence(1.0)
    for sound in (speech(0.8) + silence(0.8), silence(0.4) + speech(0.8)):
        result = await sv.Pipeline(
            Spoken(*sliced(sound, 999)), requirements=[rule], chunking=FrameChunker(0.25)
        ).run("x")
        assert result.success, result.failures
    assert rule._silent == 0
