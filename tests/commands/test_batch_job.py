"""Tests of `streamval.commands.batch_job`, as a person uses it."""

import asyncio
import os
import pty
import select
import signal
import subprocess
import time

import pytest

from streamval.batch.events import BatchProgress
from streamval.commands.batch_job import said_of
from tests.support.batch_command import JOB, STREAMVAL, made, results, rows, run
from tests.support.gateway import FILE
from tests.support.upstream import upstream, words


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made(tmp_path)
    return tmp_path


def test_a_job_from_its_rows_to_its_results(folder):
    rows(folder, "one", "two", "fail")
    done = run(*JOB)
    assert done.returncode == 1, done.stderr
    assert "3 of 3 rows have a result: 2 valid, 1 failed, 0 errors" in done.stderr
    assert "--retry-failed asks those again" in done.stderr
    assert [one["text"] for one in results(folder)] == ["one is fine.", "two is fine.", ""]
    rows(folder, "one", "two")
    done = run(*JOB)
    assert done.returncode == 0, done.stderr
    assert "2 rows have their result already" in done.stderr
    assert len(results(folder)) == 2
    done = run("--status", "out.jsonl")
    assert done.stdout.startswith("2 of 2 rows have a result: 2 valid")


HOSTILE = """
import streamval as sv

SAID = "wait \\x1b[31m\\x1b]0;owned\\x07\\x9b2J"

class Hostile(sv.Backend):
    model = "hostile"
    asked = 0

    async def stream(self, request):
        Hostile.asked += 1
        if Hostile.asked == 1:
            raise sv.errors.RateLimitError(SAID)
        yield "Fine."
        raise sv.errors.StreamBrokenError(SAID)

pipeline = sv.Pipeline(Hostile())
"""


def test_what_a_provider_says_controls_no_terminal(folder):
    (folder / "made.py").write_text(HOSTILE)
    rows(folder, "one", "two")
    done = run(*JOB)
    assert "slower: a pause" in done.stderr
    assert "the first error" in done.stderr
    assert not {"\x1b", "\x07", "\x9b"} & set(done.stderr + done.stdout)


def test_standard_input(folder):
    done = run("-", *JOB[1:], input='{"prompt": "one"}\n{"prompt": "two"}')
    assert done.returncode == 0, done.stderr
    assert [one["id"] for one in results(folder)] == [1, 2]


def started(folder, *more, **options):
    going = subprocess.Popen(
        [*STREAMVAL, *JOB, *more], stderr=subprocess.PIPE, text=True, cwd=folder, **options
    )
    deadline = time.monotonic() + 60
    while "result" not in (said := run("--status", "out.jsonl").stdout) or said.startswith("0 of"):
        assert time.monotonic() < deadline
        assert going.poll() is None, going.stderr.read()
    return going


def test_ctrl_c_lets_rows_under_way_end_and_says_how_to_go_on(folder):
    made(folder, pause=0.3)
    rows(folder, *(f"row {n}" for n in range(200)))
    going = started(folder, "--task-limit", "4")
    going.send_signal(signal.SIGINT)
    _, said = going.communicate(timeout=60)
    assert going.returncode == 130, said
    assert "finishing the rows under way" in said
    assert "interrupted: the same command goes on with the rest of rows.jsonl" in said
    assert 4 <= len(results(folder)) < 200
    assert "Traceback" not in said


async def test_ctrl_c_does_not_wait_for_a_provider_that_is_not_there(folder):
    rows(folder, "one", "two", "three")
    async with upstream(words("Fine.")) as behind:
        url = behind.url
    (folder / "gateway.yaml").write_text(FILE.format(url=url, server=""))
    command = [*STREAMVAL, *JOB[:3], "gateway.yaml", "--model", "plain"]
    going = await asyncio.create_subprocess_exec(*command, stderr=subprocess.PIPE)
    while b"slower" not in (line := await going.stderr.readline()):
        assert line
    going.send_signal(signal.SIGTERM)  # as a service is told to stop
    _, said = await asyncio.wait_for(going.communicate(), 60)
    assert going.returncode == 130, said
    assert b"0 of 3 rows have a result" in said


def test_why_rows_are_not_valid_is_said(folder):
    rows(folder, "one", "fail", "fail", "raise")
    made(folder)
    text = (folder / "made.py").read_text()
    said = 'if "raise" in said: raise RuntimeError("oh no")\n        await'
    (folder / "made.py").write_text(text.replace("await", said, 1))
    done = run(*JOB)
    assert "the first error, of row 'r3': RuntimeError: oh no" in done.stderr
    assert '2 × never say "bad"' in done.stderr
    assert "1 × RuntimeError: oh no" in done.stderr


def test_a_file_that_no_job_wrote_is_left_alone(folder):
    rows(folder, "one")
    (folder / "out.jsonl").write_text("my precious notes")
    done = run(*JOB)
    assert done.returncode == 2
    assert "out.jsonl exists, and no job wrote it" in " ".join(done.stderr.split())
    assert (folder / "out.jsonl").read_text() == "my precious notes"


def test_a_function_that_raises_is_said_in_a_line(folder):
    rows(folder, "one")
    (folder / "made.py").write_text("def pipeline():\n    raise ValueError('no config')\n")
    done = run(*JOB)
    assert done.returncode == 2
    assert "made:pipeline() raised ValueError: no config" in " ".join(done.stderr.split())


def test_a_second_ctrl_c_leaves_them(folder):
    rows(folder, "one", "hang", "hang", "hang")
    going = started(folder)
    going.send_signal(signal.SIGINT)
    while "under way" not in (line := going.stderr.readline()):
        assert line
    going.send_signal(signal.SIGINT)
    _, said = going.communicate(timeout=300)
    assert going.returncode == 130
    assert "Traceback" not in said
    assert "1 of 4 rows have a result" in said
    assert run("--status", "out.jsonl").stdout.startswith("1 of 4")


async def test_a_gateways_file_and_a_model_of_it(folder):
    rows(folder, "one", "two")
    async with upstream(lambda body, n: words("One is fine. Two is forbidden. ")) as behind:
        (folder / "gateway.yaml").write_text(FILE.format(url=behind.url, server=""))
        command = [*STREAMVAL, *JOB[:3], "gateway.yaml", "--model", "strict"]
        going = await asyncio.create_subprocess_exec(*command, stderr=subprocess.PIPE)
        _, said = await going.communicate()
    assert going.returncode == 1, said
    assert [one["text"] for one in results(folder)] == ["One is fine."] * 2


def test_a_terminal_has_a_bar(folder):
    made(folder, pause=0.02)
    rows(folder, *(f"row {n}" for n in range(100)))
    ours, theirs = pty.openpty()
    going = subprocess.Popen(
        [*STREAMVAL, *JOB], stderr=theirs, stdout=theirs, env={**os.environ, "COLUMNS": "120"}
    )
    os.close(theirs)
    said = b""
    while select.select([ours], [], [], 60)[0]:
        try:
            said += os.read(ours, 4096)
        except OSError:  # it has ended
            break
    os.close(ours)
    assert going.wait(60) == 0
    assert b"100/100" in said
    assert b"100 valid, 0 fai" in said


def test_a_log_has_a_line_with_what_is_left():
    progress = BatchProgress(total=1_000, valid=90, failed=9, errors=1, tokens=5_000, seconds=10.0)
    assert said_of(progress) == (
        "100 of 1,000 rows: 90 valid, 9 failed, 1 errors; 5,000 tokens; 10.0 rows/s, 90 s left"
    )
    assert said_of(BatchProgress()) == "0 rows: 0 valid, 0 failed, 0 errors; 0 tokens; 0.0 rows/s"
