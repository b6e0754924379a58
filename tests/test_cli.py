"""Tests of `streamval.cli`."""

import streamval as sv
from tests.support.command_line import streamval


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


def test_the_version():
    assert streamval("--version").stdout.strip() == f"streamval {sv.__version__}"
