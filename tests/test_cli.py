"""Tests of `streamval.cli`."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading

import httpx
import pytest

import streamval as sv
from streamval.backends import read_events
from streamval.view.patch import patched
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


class Serving(dict):
    """The environment in which the server is OpenAI, and the server."""

    def __init__(self, server, **environment):
        super().__init__(environment)
        self.server = server


@pytest.fixture
def serving():
    """The OpenAI-shaped server in a thread of its own, and the arguments that point at it."""
    started, stop = threading.Event(), None
    address = {}

    async def serve():
        nonlocal stop
        stop = asyncio.Event()
        address["loop"] = asyncio.get_running_loop()
        async with openai_server() as server:
            address["url"], address["server"] = server.url, server
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    started.wait(10)
    yield Serving(address["server"], OPENAI_API_BASE=address["url"], OPENAI_API_KEY="sk-x")
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
        (["run", "x", "-m", "openai/fine", "--rule", "nope"], "no ready requirement is called"),
        (["run", "x", "-m", "openai/fine", "--rule", "word_limit={"], "must be JSON"),
        (["run", "x", "-m", "openai/fine", "--rule", "word_limit=3"], "cannot be made so"),
        (["run", "x", "-m", "openai/fine", "--format", "City"], "--format is FILE.py:Model"),
        (["run", "x", "-m", "openai/fine", "--format", "no.py:City"], "--format is FILE.py:Model"),
        (["run", "x", "-m", "openai/fine", "--format", f"{__file__}:City"], "there is no 'City'"),
        (["run", "x", "--api-base", "http://127.0.0.1:9"], "--api-base needs --model"),
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


def test_the_version():
    assert streamval("--version").stdout.strip() == f"streamval {sv.__version__}"


def test_rules_are_listed_with_what_they_take_and_when_they_fail():
    shown = streamval("rules").stdout
    assert "word_limit  at_least=None, at_most=None" in shown
    assert "no_secrets" in shown
    assert shown.count("\n    Fails ") > 12


def test_rules_system_and_max_tokens_reach_their_place(serving):
    done = streamval(
        *("run", "Say it.", "-m", "openai/fine", "--system", "Be brief.", "--max-tokens", "99"),
        *("--rule", 'word_limit={"at_most": 5}', "--retry", "0"),
        **serving,
    )
    assert done.returncode == 1
    assert done.stdout.strip() == "One is here."
    assert "where 5 are allowed" in done.stderr
    body = serving.server.requests[-1].body
    assert [turn["content"] for turn in body["messages"]] == ["Be brief.", "Say it."]
    assert body["max_tokens"] == 99


def test_an_address_needs_no_provider(serving):
    address = serving.pop("OPENAI_API_BASE")
    done = streamval("run", "Say it.", "-m", "fine", "--api-base", address, **serving)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("One is here.")


def test_a_format_from_a_file(serving, tmp_path):
    file = tmp_path / "city.py"
    file.write_text("from pydantic import BaseModel\nclass City(BaseModel):\n    name: str\n")
    arguments = ("run", "x", "-m", "openai/fine", "--retry", "0", "--format")
    done = streamval(*arguments, f"{file}:City", **serving)
    assert done.returncode == 1
    assert "City" in done.stderr
    file.write_text("1 / 0")
    done = streamval(*arguments, f"{file}:City", **serving)
    assert done.returncode == 2
    assert "cannot be imported: ZeroDivisionError" in " ".join(done.stderr.split())


def test_in_a_pipe_the_text_comes_as_it_is_delivered_and_ctrl_c_ends_it(serving):
    """The server says two words and no more; the first is delivered while the run goes on."""
    going = subprocess.Popen(
        [*PYTHON, "run", "x", "-m", "openai/stalls", "--chunk", "word"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **serving},
    )
    assert going.stdout.read(3) == b"One"
    assert going.poll() is None
    going.send_signal(signal.SIGINT)
    _, said = going.communicate(timeout=60)
    assert going.returncode == 130
    assert b"interrupted" in said
    assert b"Traceback" not in said


def test_a_reader_that_leaves_is_no_traceback(serving):
    going = subprocess.Popen(
        [*PYTHON, "run", "x", "-m", "openai/endless", "--chunk", "word"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **serving},
    )
    going.stdout.read(3)
    going.stdout.close()
    with going.stderr:
        assert b"Traceback" not in going.stderr.read()
    going.wait(60)


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


def test_one_message_for_a_missing_key():
    for model, variable in (
        ("openai/gpt-4o-mini", "OPENAI_API_KEY"),
        ("anthropic/claude-3-5-haiku-latest", "ANTHROPIC_API_KEY"),
        ("text-completion-openai/gpt-3.5-turbo-instruct", "OPENAI_API_KEY"),
    ):
        done = streamval("run", "x", "-m", model, **{variable: ""})
        assert done.returncode == 2
        assert f"there is no key for {model}: set {variable}, or pass api_key=" in " ".join(
            done.stderr.replace("streamval:", "").split()
        )


@contextlib.contextmanager
def watching(*arguments, **environment):
    """A command with --watch; yields the process and the page's address."""
    hidden = {"DISPLAY": "", "WAYLAND_DISPLAY": ""}
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    going = subprocess.Popen(
        [*PYTHON, *arguments, "--watch"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**kept, **environment},
    )
    try:
        for line in going.stderr:
            if line.startswith("watch it at "):
                yield going, line.split()[-1]
                break
    finally:
        going.kill()
        going.communicate()


def over(url):
    """Wait for the end of the run on its page; returns the last snapshot."""
    shown = {}
    with httpx.stream("GET", f"{url}events", timeout=60, trust_env=False) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                shown = patched(shown, json.loads(line.removeprefix("data: ")))
                if shown["state"] not in ("waiting", "running"):
                    return shown
    return None


def test_watch_shows_a_run_on_a_page_until_ctrl_c_and_exits_as_the_run_did(serving):
    strict = ("--check", "It is in French.", "--retry", "0")
    for more, status, state in (((), 0, "valid"), (strict, 1, "invalid")):
        with watching("run", "Say it.", "-m", "openai/fine", *more, **serving) as (going, url):
            shown = over(url)
            assert shown["state"] == state
            assert "Two is here!" in "".join(segment["text"] for segment in shown["text"])
            assert httpx.get(url, trust_env=False).status_code == 200  # it stays
            assert going.poll() is None
            going.send_signal(signal.SIGINT)
            assert going.wait(60) == status


def test_a_recording_is_watched_and_drawn(tmp_path):
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

    for suffix, begins in (("svg", "<svg"), ("html", "<!doctype html>")):
        drawing = tmp_path / f"run.{suffix}"
        done = streamval("draw", str(path), "-o", str(drawing))
        assert done.returncode == 0, done.stderr
        assert drawing.read_text().startswith(begins)
    for arguments, says in (
        ((str(path), "-o", "run.png"), "saved as .svg or .html"),
        (("nothing.jsonl", "-o", "run.svg"), "cannot read the recording"),
    ):
        done = streamval("draw", *arguments)
        assert done.returncode == 2
        assert says in " ".join(done.stderr.split())
