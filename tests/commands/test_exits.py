"""Tests of `streamval.commands.exits`."""

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


def test_what_a_file_is_called_is_no_markup(tmp_path):
    done = streamval("replay", str(tmp_path / "[/x].jsonl"))
    assert done.returncode == 2
    assert "[/x].jsonl" in done.stderr
    assert "Traceback" not in done.stderr
