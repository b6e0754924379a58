"""The standard tests of LangChain before the gateway, and before its upstream itself: the outcomes are the same."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

pytest.importorskip("langchain_tests", reason="`make test-clients` installs langchain-tests")

from tests.support.brain_server import bare_and_judged

SUITE = Path(__file__).parents[1] / "support/langchain_suite.py"


def outcomes(url, api, report):
    """What becomes of each test: passed, skipped, or failed."""
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "default", "-p", "no:cacheprovider"]
        + ["-o", "addopts=", f"--junitxml={report}", str(SUITE)],
        env={**os.environ, "SUITE_URL": url, "SUITE_API": api},
        capture_output=True,
        check=False,
    )
    found = {}
    for case in ET.parse(report).iter("testcase"):
        tags = {child.tag for child in case}
        kind = (
            "failed"
            if tags & {"failure", "error"}
            else "skipped"
            if "skipped" in tags
            else "passed"
        )
        found[case.get("name")] = kind
    return found


def test_the_gateway_passes_what_its_upstream_passes(tmp_path):
    with bare_and_judged() as (bare, judged):
        alone = outcomes(bare, "chat", tmp_path / "bare.xml")
        before = outcomes(judged, "chat", tmp_path / "judged.xml")
    assert sum(kind == "passed" for kind in alone.values()) > 30
    differing = {name: (alone[name], kind) for name, kind in before.items() if alone[name] != kind}
    assert differing == {}


def test_by_responses_the_gateway_passes_what_its_chat_passes(tmp_path):
    """The upstream speaks chat alone; LangChain speaks Responses."""
    with bare_and_judged() as (_, judged):
        by_chat = outcomes(judged, "chat", tmp_path / "chat.xml")
        by_responses = outcomes(judged, "responses", tmp_path / "responses.xml")
    worse = {
        name for name, kind in by_responses.items() if (by_chat[name], kind) == ("passed", "failed")
    }
    assert worse == set()
