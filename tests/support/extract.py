"""The Python blocks of README and CONTRIBUTING as files, for the type checkers: `extract.py FOLDER`."""

import json
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def main(folder: Path) -> None:
    """Write them, with the settings of pyright."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    text = (ROOT / "README.md").read_text()
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL)):
        (folder / f"readme_{number}.py").write_text(block)
    (folder / "api.py").write_text((ROOT / "tests/typing/api.py").read_text())
    settings = {"extraPaths": [str(ROOT / "build/shipped")], "typeCheckingMode": "standard"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))


main(Path(sys.argv[1]))
