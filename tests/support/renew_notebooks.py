"""Executes the notebooks and saves them with their outputs: `make notebooks`."""

from pathlib import Path

import nbformat
from nbclient import NotebookClient

for path in sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb")):
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=500, kernel_name="python3").execute(cwd=str(path.parent))
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when each cell ran, which changes every time
    notebook.metadata.pop("widgets", None)  # their pictures are in the outputs
    nbformat.write(notebook, path)
    print(f"{path.name}: {len(notebook.cells)} cells")
