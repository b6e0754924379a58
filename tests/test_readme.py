"""The Python in the README runs, and says what it says; its links lead somewhere."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def blocks(name):
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)


@pytest.mark.parametrize(
    ("code", "says"), [(blocks("README.md")[0], "True All is well. We are fine.")], ids=["pipeline"]
)
def test_it_runs(code, says):
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", code], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert says in done.stdout
    # Not all of stderr: where the machine is slow, asyncio's debug mode says so there.
    assert "Traceback" not in done.stderr
    assert "Warning" not in done.stderr


def test_the_targets_it_names_are_there():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"make ([a-z-]+)", (ROOT / "README.md").read_text()):
        assert f"\n{target}:" in makefile


def test_it_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 200


def test_its_links_lead_somewhere():
    text = (ROOT / "README.md").read_text()
    for link in re.findall(r"\]\(([^)#]+)", text):
        assert link.startswith("https://") or (ROOT / link).exists(), link


@pytest.mark.local_model
def test_the_batch_of_its_page(tmp_path):
    (script,) = (
        block
        for block in re.findall(
            r"```sh\n(.*?)```", (ROOT / "docs/many-prompts.md").read_text(), re.DOTALL
        )
        if "streamval batch --status" in block
    )
    folder = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-e"], input=script, cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("4 of 4 rows have a result: 4 valid")
    assert "2 rows have their result already" in done.stderr
    results = (tmp_path / "answers.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in results] == ["tides", "salt", "whales", "coral"]
