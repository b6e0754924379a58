"""Every notebook runs from its first cell to its last."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_it_runs(path):
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=500, kernel_name="python3").execute()
    assert any(cell.get("outputs") for cell in notebook.cells)


def test_there_is_one():
    assert NOTEBOOKS
