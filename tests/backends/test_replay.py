"""Tests of `streamval.backends.replay`."""

import pytest

import streamval as sv
from streamval.errors import BackendError
from streamval.sinks import JSONL
from streamval.testing import run_virtually
from tests.support.sources import Judge, fails_on


async def said(backend, prompt="go", **fields):
    from dataclasses import replace

    return [delta async for delta in backend.stream(replace(backend.request(prompt), **fields))]


@pytest.fixture
async def recording(tmp_path):
    path = tmp_path / "run.jsonl"
    backend = sv.ScriptedBackend(["One. Bad. x", " Two."], supports_prefix=True)
    pipeline = sv.Pipeline(
        backend, requirements=[Judge(fails_on("Bad."))], retry=sv.Repair(), emit_tokens=True
    )
    run = pipeline.start("go")
    run.subscribe(JSONL(path))
    return path, await run


async def test_a_recorded_run_can_be_judged_again(recording):
    path, recorded = recording
    backend = sv.ReplayBackend(path, speed=None)
    assert (backend.model, backend.supports_prefix) == ("scripted", True)
    again = sv.Pipeline(backend, requirements=[Judge(fails_on("Bad."))], retry=sv.Repair())
    assert (await again.run("go")).text == recorded.text == "One. Two."
    strict = sv.Pipeline(backend, requirements=[Judge(fails_on("One."))])
    assert not (await strict.run("go")).success


async def test_an_attempt_that_was_not_recorded_is_told(recording):
    path, _ = recording
    backend = sv.ReplayBackend(path, speed=None)
    with pytest.raises(BackendError, match="no attempt 3"):
        await sv.Pipeline(
            backend, requirements=[Judge("fail")], retry=sv.Repair(loop_budget=3)
        ).run("go")


def test_the_recorded_pace(tmp_path):
    events = [
        sv.StartedEvent(run_id="r", attempt=1, timestamp=100, model="m", chunking="word"),
        sv.TokenEvent(run_id="r", attempt=1, timestamp=101, text="a "),
        sv.TokenEvent(run_id="r", attempt=1, timestamp=103, text="b"),
        sv.TokenEvent(run_id="other", attempt=1, timestamp=104, text="c"),
    ]
    path = tmp_path / "run.jsonl"
    with JSONL(path) as record:
        for event in events:
            record(event)
    for speed, seconds in ((1.0, 3), (2.0, 1.5), (None, 0)):
        assert run_virtually(said(sv.ReplayBackend(path, speed=speed))) == (["a ", "b"], seconds)


async def test_a_recording_without_tokens_says_the_chunks(tmp_path):
    path = tmp_path / "run.jsonl"
    run = sv.Pipeline(sv.ScriptedBackend("One. Two.")).start("go")
    run.subscribe(JSONL(path))
    await run
    assert await said(sv.ReplayBackend(path, speed=None)) == ["One.", " Two."]


async def test_the_finish_reason_and_the_usage_are_those_of_the_run(tmp_path):
    path = tmp_path / "run.jsonl"
    known = sv.Delta(usage=sv.types.Usage(3, 9, source="backend"), finish_reason="length")
    run = sv.Pipeline(sv.ScriptedBackend(("It rains", known))).start("Weather?")
    run.subscribe(sv.sinks.JSONL(path))
    first = await run
    replayed = await sv.Pipeline(sv.ReplayBackend(path, speed=None)).run("Weather?")
    assert (replayed.text, replayed.finish_reason, replayed.usage) == (
        first.text,
        "length",
        first.usage,
    )
