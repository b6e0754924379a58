"""The scripted, iterable and replay backends, and the base class."""

import asyncio
import threading

import pytest

import streamval as sv
from streamval import bridge
from streamval.context import Context
from streamval.errors import BackendError, UsageError
from streamval.sinks import JSONL
from tests.support.sources import Judge, Spoken, fails_on
from tests.support.virtual_time import run_virtually


async def said(backend, prompt="go", **fields):
    from dataclasses import replace

    return [delta async for delta in backend.stream(replace(backend.request(prompt), **fields))]


# Base


async def test_observe_is_the_token_stream_cold():
    backend = Spoken("a", "", sv.Delta("b"), sv.Delta(usage=sv.Usage(1, 2)))
    observable = backend.observe("go")
    assert backend.opened == 0
    assert [text async for text in bridge.iterate(observable)] == ["a", "b"]


async def test_generate_from_context():
    backend = Spoken("One. ", "Two.")
    ctx = Context((sv.Message("user", "before"),))
    thunk, after = await backend.generate_from_context("now", ctx, model_options={"seed": 3})
    assert not thunk.is_computed()
    assert backend.opened == 0
    assert await thunk.avalue() == "One. Two."
    assert (thunk.value, str(after.last_output())) == ("One. Two.", "One. Two.")
    assert [m.content for m in after.messages] == ["before", "now"]
    assert backend.requests[0].options == {"seed": 3}
    assert backend.closed == 1


# Scripted


def test_scripted_keeps_its_schedule():
    async def main():
        return await said(sv.ScriptedBackend("abcdef", token_size=2, delay=3))

    assert run_virtually(main()) == (["ab", "cd", "ef"], 9)


async def test_scripted_has_a_response_an_attempt():
    backend = sv.ScriptedBackend(["one", "two"], token_size=9)
    assert await said(backend, attempt=2) == ["two"]
    with pytest.raises(BackendError, match="script for 2"):
        await said(backend, attempt=3)
    assert await said(sv.ScriptedBackend("same"), attempt=9) == ["same"]


@pytest.mark.parametrize(
    "wrong", [{"response": []}, {"response": [1]}, {"response": "x", "token_size": 0}]
)
def test_scripted_refuses(wrong):
    with pytest.raises(UsageError):
        sv.ScriptedBackend(**wrong)


# Iterable


async def agen(prompt):
    for word in prompt.split():
        yield word


def gen(prompt):
    yield from prompt.split()


async def later(prompt):
    await asyncio.sleep(0)
    return prompt.split()


@pytest.mark.parametrize("fn", [agen, gen, later, str.split, lambda p: tuple(p.split())])
async def test_any_function_from_a_prompt_to_an_iterable(fn):
    assert await said(sv.IterableBackend(fn), "one two") == ["one", "two"]


async def test_a_generator_that_blocks_does_not_block_the_loop_and_is_closed():
    closed = []
    gate = threading.Event()

    def blocking(_):
        try:
            yield "One. "
            yield "Two. "
            gate.wait(5)
            yield "Three. "
        finally:
            closed.append(threading.current_thread())

    async with sv.Pipeline(sv.IterableBackend(blocking)).start("go") as run:
        async for event in run:
            if event.type == "chunk":
                gate.set()
                break
    while not closed:
        await asyncio.sleep(0.001)
    assert closed[0] is not threading.main_thread()


async def test_iterable_refuses_what_is_no_iterable_of_strings():
    with pytest.raises(BackendError, match="returned str"):
        await said(sv.IterableBackend(lambda prompt: prompt))
    with pytest.raises(BackendError, match="returned int"):
        await said(sv.IterableBackend(lambda prompt: 7))
    with pytest.raises(UsageError, match="function"):
        sv.IterableBackend("text")


# Replay


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


def test_what_is_no_recording_is_refused(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text("")
    with pytest.raises(UsageError, match="no recording"):
        sv.ReplayBackend(path)
    path.write_text('{"type": "started"')
    with pytest.raises(UsageError, match="line 1"):
        sv.ReplayBackend(path)
    with pytest.raises(UsageError, match="cannot read"):
        sv.ReplayBackend(tmp_path / "none.jsonl")
    with pytest.raises(UsageError, match="speed"):
        sv.ReplayBackend(path, speed=0)
