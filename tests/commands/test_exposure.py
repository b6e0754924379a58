"""Tests of `streamval exposure`, as a person would run it."""

import json

import pytest

from streamval.commands.exposure import OURS, with_upstream
from streamval.errors import UsageError
from tests.support.command_line import streamval

FILE = """
upstreams: {a: {model: openai/gpt-4o-mini, api_key: "${NO_SUCH_KEY}"}, b: {model: local}}
models:
  first: {upstream: [a, b], requirements: [{python: beside:no_acme}]}
server: {port: 80, keys: ["secret"], max_runs: 50}
"""


def test_the_upstreams_of_a_file_are_replaced():
    content = with_upstream(FILE, "http://127.0.0.1:1/v1")
    assert set(content["upstreams"]) == {"a", "b"}
    assert {one["api_base"] for one in content["upstreams"].values()} == {"http://127.0.0.1:1/v1"}
    assert content["server"] == {"max_runs": 50}
    assert list(with_upstream(OURS, "x")["models"]) == ["careful", "typed"]


@pytest.mark.parametrize(
    ("text", "message"), [("[1", "not YAML"), ("a: 1", "no `models`"), ("[]", "no `models`")]
)
def test_files_that_are_none(text, message):
    with pytest.raises(UsageError, match=message):
        with_upstream(text, "x")


@pytest.mark.slow
def test_a_file_of_ones_own_with_a_rule_beside_it(tmp_path):
    (tmp_path / "gateway.yaml").write_text(FILE)
    (tmp_path / "beside.py").write_text(
        "def no_acme(text):\n    return 'acme' not in text.lower()\n"
    )
    arguments = ("exposure", str(tmp_path / "gateway.yaml"), "--listen", "127.0.0.1:0")
    done = streamval(*arguments, "--pause", "0", "--protocol", "chat", "--json")
    assert done.returncode == 0, done.stderr
    assert "The scripted upstream is http://127.0.0.1:" in done.stderr
    rows = {row["kind"]: row for row in json.loads(done.stdout) if row["streamed"]}
    assert rows["a pattern over deltas"]["leaked"] == 6
    assert rows["none"]["valid"] == 15
    assert rows["a word"]["leaked"] < 8
    shown = streamval(*arguments, "--pause", "0", "--protocol", "chat")
    assert "a pattern over deltas" in shown.stdout
    assert "harmless: 15, 0 stopped" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--base-url", "http://127.0.0.1:9/v1"], "--base-url and --model"),
        (["x.yaml", "--base-url", "http://127.0.0.1:9/v1", "-m", "m"], "--base-url and --model"),
        (["--protocol", "smtp"], "not smtp"),
        (["--listen", "here"], "HOST:PORT"),
        (["--listen", "203.0.113.1:1"], "cannot listen"),
        (["no_such.yaml", "--listen", "127.0.0.1:0"], "cannot be read"),
    ],
)
def test_wrong_use(arguments, message):
    done = streamval("exposure", *arguments)
    assert done.returncode == 2, done.stderr
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_gateway_that_is_not_there():
    done = streamval(
        "exposure", "--base-url", "http://127.0.0.1:9/v1", "-m", "m", "--listen", "127.0.0.1:0"
    )
    assert done.returncode == 3
    assert "cannot be reached" in done.stderr
