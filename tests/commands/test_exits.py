"""Tests of `streamval.commands.exits`."""

import subprocess
import sys

import pytest

from tests.support.command_line import streamval


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run"], "Missing argument"),
        (["run", "x", "-m", "openai/fine", "--chunk", "sentense"], "no chunking is called"),
        (["run", "x", "-m", "nosuchmodel"], "provider/model"),
        (["run", "x", "-m", "openai/fine", "--rule", "nope"], "no ready requirement is called"),
        (["run", "x", "-m", "openai/fine", "--rule", "word_limit={"], "must be JSON"),
        (
            ["run", "x", "-m", "openai/fine", "--rule", "word_limit=3"],
            "cannot be made with these arguments",
        ),
        (["run", "x", "-m", "openai/fine", "--format", "City"], "--format is FILE.py:Model"),
        (["run", "x", "-m", "openai/fine", "--format", "no.py:City"], "there is no file no.py"),
        (["run", "x", "-m", "openai/fine", "--format", "no.json"], "no.json cannot be read"),
        (
            ["run", "x", "-m", "openai/fine", "--rule", 'word_limit={"atmost": 5}'],
            "word_limit has no argument 'atmost'; did you mean 'at_most'?",
        ),
        (["run", "x", "-m", "openai/fine", "--rule", "word_limit"], 'word_limit={"at_most": 80}'),
        (["replay", __file__], "recordings are written by --record"),
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
    assert says in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


WITHOUT = """
import sys
sys.modules[sys.argv.pop(1)] = None
from streamval.cli import main
main()
"""


@pytest.mark.parametrize("package", ["uvicorn", "starlette", "yaml", "aiohttp"])
def test_a_missing_extra_is_named(package):
    """It was a traceback."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, package, "serve"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stdout + " ".join(done.stderr.split()) == (
        f"streamval: {package} is not installed: pip install 'streamval-llm[serve]'"
    )


def test_a_broken_model_exits_with_3(serving):
    done = streamval("run", "x", "-m", "openai/dies", **serving)
    assert done.returncode == 3
    assert "broke off" in done.stderr
    assert "Traceback" not in done.stderr
    assert streamval("run", "x", "-m", "openai/bad-key", **serving).returncode == 2


def test_what_a_file_is_called_is_no_markup(tmp_path):
    done = streamval("replay", str(tmp_path / "[/x].jsonl"))
    assert done.returncode == 2
    assert "[/x].jsonl" in done.stderr
    assert "Traceback" not in done.stderr
