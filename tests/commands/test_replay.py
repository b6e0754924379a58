"""Tests of `streamval.commands.replay`."""

import asyncio
import signal

import streamval as sv
from streamval.backends import read_events
from tests.support.command_line import over, streamval, watching


def test_replay_exits_as_the_run_did(tmp_path):
    for text, status in (("Fine.", 0), ("Bad!", 1)):
        path = tmp_path / f"{status}.jsonl"
        calm = sv.stream_check(lambda text: not text.endswith("!"), "calm")
        run = sv.Pipeline(sv.ScriptedBackend(text), requirements=[calm], emit_tokens=True).start(
            "x"
        )
        run.subscribe(sv.sinks.JSONL(path))

        async def drive(run=run):
            await run

        asyncio.run(drive())
        assert list(read_events(path))
        done = streamval("replay", str(path), "--speed", "0")
        assert done.returncode == status, done.stderr
        assert ("Fine." in done.stdout) == (status == 0)


def test_replay_shows_what_there_is_of_a_recording_that_was_cut(tmp_path):
    path = tmp_path / "cut.jsonl"
    started = sv.StartedEvent(run_id="a", attempt=1, model="m", chunking="sentence")
    chunk = sv.ChunkEvent(
        run_id="a", attempt=1, text="So far.", chunk_index=0, start=0, end=7, separator=""
    )
    lines = [event.model_dump_json() for event in (started, chunk)]
    path.write_text("\n".join([*lines, '{"type": "comp']))

    done = streamval("replay", str(path), "--speed", "0")

    assert done.returncode == 1
    assert "So far." in done.stdout
    assert "it ends before the run does" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_restart_in_a_pipe_begins_on_a_new_line(tmp_path):
    path = tmp_path / "run.jsonl"
    calm = sv.stream_check(lambda text: not text.endswith("!"), "calm")
    backend = sv.ScriptedBackend(["Fine. Bad!", "All is well."])
    pipeline = sv.Pipeline(backend, requirements=[calm], retry=sv.Repair(mode="restart"))

    async def drive():
        run = pipeline.start("x")
        run.subscribe(sv.sinks.JSONL(path))
        await run

    asyncio.run(drive())
    done = streamval("replay", str(path), "--speed", "0")
    assert done.stdout == "Fine.\nAll is well.\n"
    assert "began again" in done.stderr


def test_a_recording_is_watched(tmp_path):
    path = tmp_path / "run.jsonl"
    run = sv.Pipeline(sv.ScriptedBackend("Fine. So."), emit_tokens=True).start("x")
    run.subscribe(sv.sinks.JSONL(path))

    async def drive():
        await run

    asyncio.run(drive())
    with watching("replay", str(path), "--speed", "0") as (going, url):
        assert over(url)["state"] == "valid"
        going.send_signal(signal.SIGINT)
        assert going.wait(60) == 0
