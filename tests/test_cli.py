"""Tests of `streamval.cli`."""

import os
import subprocess
import sys

import pytest

import streamval as sv
from streamval.backends import read_events
from tests.support.openai_server import openai_server

PYTHON = [sys.executable, "-X", "dev", "-m", "streamval.cli"]


def streamval(*arguments, **environment):
    """Run the command, as a person would; returns how it ended."""
    return subprocess.run(
        [*PYTHON, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "100", **environment},
        timeout=110,
    )


@pytest.fixture
def serving():
    """The OpenAI-shaped server in a thread of its own, and the arguments that point at it."""
    import asyncio
    import threading

    started, stop = threading.Event(), None
    address = {}

    async def serve():
        nonlocal stop
        stop = asyncio.Event()
        address["loop"] = asyncio.get_running_loop()
        async with openai_server() as server:
            address["url"] = server.url
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    started.wait(10)
    yield {"OPENAI_API_BASE": address["url"], "OPENAI_API_KEY": "sk-x"}
    address["loop"].call_soon_threadsafe(stop.set)
    thread.join(10)


def test_help_teaches():
    done = streamval("--help")
    assert done.returncode == 0
    for word in ("run", "replay", "demo", "Exit status"):
        assert word in done.stdout
    done = streamval("run", "--help")
    for word in (
        "--model",
        "--require",
        "--check",
        "--chunk",
        "--retry",
        "--record",
        "streamval run",
    ):
        assert word in done.stdout


def test_a_valid_answer_goes_to_standard_output_and_is_recorded(serving, tmp_path):
    path = tmp_path / "run.jsonl"
    done = streamval("run", "Say it.", "-m", "openai/fine", "--record", str(path), **serving)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "One is here. Two is here! Three is here. Four is here."
    assert "valid after 1 attempt" in done.stderr
    events = list(read_events(path))
    assert (events[0].type, events[-1].type) == ("started", "completed")
    assert any(event.type == "token" for event in events)

    strict = ("--check", "It is in French.", "--retry", "1")
    done = streamval("run", "Say it.", "-m", "openai/fine", *strict, **serving)
    assert done.returncode == 1  # this model answers everything with the same words: never yes
    assert "It is in French." in done.stderr


def test_replay_exits_as_the_run_did(tmp_path):
    import asyncio

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


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run"], "Missing argument"),
        (["run", "x", "-m", "openai/fine", "--chunk", "sentense"], "no chunking is called"),
        (["run", "x", "-m", "nosuchmodel"], "provider/model"),
        (["run", " ", "-m", "openai/fine"], "prompt is empty"),
        (["replay", "none.jsonl"], "cannot read"),
        (["replay"], "Missing argument"),
        (["nosuchcommand"], "No such command"),
    ],
)
def test_wrong_use_exits_with_2_and_says_why(arguments, says):
    done = streamval(*arguments, OPENAI_API_KEY="sk-x")
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broken_model_exits_with_3(serving):
    done = streamval("run", "x", "-m", "openai/dies", **serving)
    assert done.returncode == 3
    assert "broke off" in done.stderr
    assert "Traceback" not in done.stderr
    assert streamval("run", "x", "-m", "openai/bad-key", **serving).returncode == 2


@pytest.mark.local_model
def test_the_demo_shows_a_failure_a_repair_and_a_valid_end():
    done = streamval("demo")
    assert done.returncode == 0, done.stderr
    assert "cancelled" in done.stderr
    assert "went on from there" in done.stderr
    assert "saved from rejected attempts" in done.stderr
    assert done.stdout == streamval("demo").stdout  # seeded


def test_what_a_file_is_called_is_no_markup(tmp_path):
    done = streamval("replay", str(tmp_path / "[/x].jsonl"))
    assert done.returncode == 2
    assert "[/x].jsonl" in done.stderr
    assert "Traceback" not in done.stderr
