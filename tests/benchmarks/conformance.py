"""`make bench-conformance`: suites that others made, run here; writes `docs/conformance.md`.

Three parts: JSON Schema (the test suite, JSONSchemaBench), LangChain's standard tests, and the tests in the source
distribution of the `openai` package. The last two need the environment of `make test-clients`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import subprocess
import sys
import tempfile
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree as ET

sys.path.insert(0, str(Path(__file__).parent))

import schema

ROOT = Path(__file__).parents[2]
OPENAI = """
import json, sys, tempfile
from pathlib import Path
from tests.integrations.test_openai_suite import outcomes
from tests.support.brain_server import bare_and_judged
with bare_and_judged() as (bare, judged), tempfile.TemporaryDirectory() as folder:
    found = {}
    for name in ("chat/test_completions", "test_completions", "test_responses"):
        found[name] = [list(outcomes(url, Path(folder, "report.xml"), name).values()) for url in (judged, bare)]
print(json.dumps(found))
"""


def row(*cells):
    return f"| {' | '.join(map(str, cells))} |"


def json_schema(suite, bench, count):
    """The table of the suites about JSON Schema, and which schemas are refused."""
    rows = [schema.suite_row(suite / "json/tests", draft) for draft in schema.DRAFTS]
    rows.append(schema.bench_row(bench, count))
    yield row(*schema.HEADERS)
    yield "|---" * len(schema.HEADERS) + "|"
    yield from (row(*one.cells()) for one in rows)
    yield ""
    refused, remote = sum(len(one.refused) for one in rows), sum(len(one.remote) for one in rows)
    wrong = [f"{one.name}: {said}" for one in rows for said in (*one.wrong, *one.failed_early)]
    yield f"Schemas refused because they refer to other documents, which are not fetched: {remote}. Refused for other reasons: {refused}."
    yield f"Wrong verdicts and early failures: {'; '.join(wrong) or 'none'}."


def langchain(python):
    """What becomes of LangChain's standard tests."""
    yield row("before", "passed", "failed", "skipped", "expected to fail")
    yield "|---|---|---|---|---|"
    named = []
    with tempfile.TemporaryDirectory() as folder:
        for what, file in (
            ("`JudgedChatModel`", "test_langchain_standard"),
            ("the gateway, with `ChatOpenAI`", "test_langchain_gateway"),
        ):
            report = Path(folder, "report.xml")
            command = [python, "-m", "pytest", "-q", "-W", "default", "-p", "no:cacheprovider"]
            subprocess.run(
                [*command, f"--junitxml={report}", f"tests/integrations/{file}.py"],
                cwd=ROOT,
                capture_output=True,
                check=False,
            )
            counts = Counter()
            for case in ET.parse(report).iter("testcase"):
                child = next(
                    (one for one in case if one.tag in ("failure", "error", "skipped")), None
                )
                kind = "passed" if child is None else child.tag
                if child is not None and child.get("type") == "pytest.xfail":
                    kind = "xfail"
                counts[kind] += 1
                if child is not None:
                    named.append(f"- `{case.get('name')}` ({what}): {child.get('message')}")
            failed = counts["failure"] + counts["error"]
            yield row(what, counts["passed"], failed, counts["skipped"], counts["xfail"])
    yield ""
    yield from dict.fromkeys(named)


def openai(python):
    """What becomes of the `openai` package's own tests, before the gateway and before its upstream."""
    done = subprocess.run(
        [python, "-c", OPENAI], cwd=ROOT, capture_output=True, text=True, check=True
    )
    yield row(
        "tests of", "in all", "passed, before the gateway", "passed, before its upstream itself"
    )
    yield "|---|---|---|---|"
    whys = Counter()
    for name, (judged, bare) in json.loads(done.stdout.splitlines()[-1]).items():
        yield row(f"`{name}`", len(judged), judged.count(None), bare.count(None))
        whys.update(why for why in judged if why)
    yield ""
    for why, count in whys.most_common():
        yield f"- {count} fail: {' '.join(why.split())[:200]}"


def main(suite, bench, count, clients):
    found = subprocess.run(
        [
            clients,
            "-c",
            "from importlib.metadata import version as v; print(v('langchain-tests'), v('openai'))",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    tests, package = found.stdout.split()
    lines = [
        "# Conformance",
        "",
        (
            "Suites that others made. This page is written by `make bench-conformance`, on "
            f"{dt.datetime.now(dt.UTC).date()}, with Python {sys.version.split()[0]}."
        ),
        "",
        "## JSON Schema",
        "",
        (
            f"The [JSON Schema Test Suite](https://github.com/json-schema-org/JSON-Schema-Test-Suite) (in the source distribution of "
            f"`jsonschema` {suite.name.rpartition('-')[2]}, all required tests), and "
            "[JSONSchemaBench](https://github.com/guidance-ai/jsonschemabench). Each document is judged in deltas of 4 characters; a wrong "
            f"verdict is one beside the suite's own label. Compared with jsonschema-rs {version('jsonschema-rs')} at the end of the document."
        ),
        "",
        *json_schema(suite, bench, count),
        "",
        "## LangChain's standard tests",
        "",
        (
            f"[langchain-tests](https://pypi.org/project/langchain-tests/) {tests}, the unit tests and the integration tests of chat models, before "
            "a scripted model. None is left out by us; what is skipped or expected to fail is named."
        ),
        "",
        *langchain(clients),
        "",
        "## The tests of the `openai` package",
        "",
        (
            f"The tests of `create` in the source distribution of [openai](https://pypi.org/project/openai/) {package}, before the gateway, and "
            "before the gateway's upstream itself."
        ),
        "",
        *openai(clients),
        "",
        "What clients were tried, with versions, is in [Clients of the gateway](clients.md).",
    ]
    (ROOT / "docs/conformance.md").write_text("\n".join(lines) + "\n")
    print("docs/conformance.md is written")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--suite", type=Path, required=True)
    arguments.add_argument("--bench", type=Path, help="maskbench/data of JSONSchemaBench")
    arguments.add_argument("--count", type=int, default=500)
    arguments.add_argument("--clients", required=True, help="the Python of `make test-clients`")
    main(**vars(arguments.parse_args()))
