"""Tests of `streamval.commands.display`."""

import os
import signal
import subprocess
import sys

import httpx
import pytest

from tests.support.command_line import PYTHON, over, watching


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


@pytest.mark.local_model
def test_a_notice_stands_on_a_line_of_its_own_where_both_outputs_have_one_place():
    prompt = r"Facts about water:\n\nWater is"
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    environment = {**os.environ, "STREAMVAL_MODEL": ""}
    command = [sys.executable, "-m", "streamval.cli", "run", prompt]
    done = subprocess.run(command, env=environment, **options, timeout=500)
    assert done.returncode in (0, 1)  # whether the model repairs it is left open
    assert "\nattempt 1 rejected: " in done.stdout
