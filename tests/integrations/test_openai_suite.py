"""The `openai` package's own tests of what is asked for, before the gateway, and before its upstream itself."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.support.brain_server import bare_and_judged

ROOT = Path(__file__).parents[2]
SUITE = ROOT / "build/suites/openai"
if not SUITE.exists():
    pytest.skip("`make test-clients` downloads the tests", allow_module_level=True)
pytest.importorskip("respx", reason="`make test-clients` installs what the tests need")

KEPT_BY_OPENAI = "no conversations are kept here"
NO_MODEL = "model must be the name"
"""Why tests fail: OpenAI's conversations are OpenAI's, and a request has to name a model."""


def outcomes(url, report, *files):
    """What becomes of each test: None where it passes, else why it fails."""
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "ignore", "-p", "no:cacheprovider"]
        + ["-o", "addopts=", f"--junitxml={report}", "-k", "create"]
        + [f"tests/api_resources/{file}.py" for file in files],
        cwd=SUITE,
        env={**os.environ, "TEST_API_BASE_URL": url},
        capture_output=True,
        check=False,
    )
    found = {}
    for case in ET.parse(report).iter("testcase"):
        failure = next((one for one in case if one.tag in ("failure", "error")), None)
        name = f"{case.get('classname')}.{case.get('name')}"
        found[name] = None if failure is None else failure.get("message")
    return found


def test_the_gateway_passes_what_its_upstream_passes(tmp_path):
    with bare_and_judged() as (bare, judged):
        files = ("chat/test_completions", "test_completions")
        alone = outcomes(bare, tmp_path / "bare.xml", *files)
        before = outcomes(judged, tmp_path / "judged.xml", *files)
    assert len(before) > 70
    assert before == dict.fromkeys(alone)


def test_responses_pass_but_for_what_openai_keeps(tmp_path):
    with bare_and_judged() as (_, judged):
        found = outcomes(judged, tmp_path / "responses.xml", "test_responses")
    whys = Counter(
        next((known for known in (KEPT_BY_OPENAI, NO_MODEL) if known in why), why)
        for why in found.values()
        if why
    )
    assert set(whys) <= {KEPT_BY_OPENAI, NO_MODEL}, whys
