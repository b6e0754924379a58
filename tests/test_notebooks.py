"""Every notebook runs from its first cell to its last."""

import re
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_it_runs(path):
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=500, kernel_name="python3").execute()
    assert any(cell.get("outputs") for cell in notebook.cells)


def test_there_is_one():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_committed_with_its_outputs(path):
    """`make notebooks` renews them."""
    cells = nbformat.read(path, as_version=4).cells
    executed = [cell for cell in cells if cell.cell_type == "code" and cell.execution_count]
    assert len(executed) == len([cell for cell in cells if cell.cell_type == "code"])
    assert any(cell.outputs for cell in executed)
    assert not any(out.output_type == "error" for cell in executed for out in cell.outputs)


@pytest.mark.parametrize(("name", "count"), [("10_composing", 10), ("11_thinking_and_tools", 8)])
def test_each_of_the_programs_has_twenty_lines_at_most(name, count):
    path = Path(__file__).parents[1] / f"notebooks/{name}.ipynb"
    cells = nbformat.read(path, as_version=4).cells
    programs = [
        below.source
        for above, below in pairwise(cells)
        if above.cell_type == "markdown" and re.search(r"^## \d", above.source, re.MULTILINE)
    ]
    assert len(programs) == count
    lines = [[line for line in program.splitlines() if line.strip()] for program in programs]
    assert max(map(len, lines)) <= 20
