"""The recipes of CONTRIBUTING are followed in a copy of the tree: file, line, test."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
RECIPES = dict(
    re.findall(
        r"^### An? (operator|chunker|requirement)\n(.*?)(?=^##)", TEXT, re.DOTALL | re.MULTILINE
    )
)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """The package as it is installed, in a folder that comes first."""
    folder = tmp_path_factory.mktemp("copy")
    leave = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "streamval", folder / "streamval", ignore=leave)
    for part in ("operators", "chunkers", "sinks"):
        shutil.copytree(ROOT / part, folder / "streamval" / part, ignore=leave)
    return folder


def test_there_are_three():
    assert set(RECIPES) == {"operator", "chunker", "requirement"}


@pytest.mark.parametrize("kind", RECIPES)
def test_a_recipe_works_as_it_is_written(kind, shipped):
    steps = re.findall(r"`([\w./]+)`[^`]*:\n\n```python\n(.*?)```", RECIPES[kind], re.DOTALL)
    (file, code), (export, line), (test, tests) = steps
    for path, text, mode in ((file, code, "w"), (export, line, "a")):
        inside = path if path.startswith("streamval/") else f"streamval/{path}"
        with (shipped / inside).open(mode) as out:
            out.write(text)
    (shipped / Path(test).name).write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--doctest-modules"]
    module = shipped / (file if file.startswith("streamval/") else f"streamval/{file}")
    done = subprocess.run(
        [*command, "-c", os.devnull, "--rootdir", str(shipped), Path(test).name, str(module)],
        cwd=shipped,
        env={**os.environ, "PYTHONPATH": str(shipped)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"3 passed", done.stdout), done.stdout
