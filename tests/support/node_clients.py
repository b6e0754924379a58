"""The JavaScript clients, installed once for all processes of a test run."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from filelock import FileLock

SOURCES = Path(__file__).parent / "node"
COMMAND = ("npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")


class NoNode(Exception):
    """Node or npm is missing, or the registry cannot be reached."""


def installed(where: Path) -> Path:
    """Install the clients in a folder under `where`, and return that folder.

    Several processes may ask at once: one installs, and the others wait for it. The folder gets its name
    when it is whole, so that an installation that was killed is begun anew.
    """
    if shutil.which("npm") is None or shutil.which("node") is None:
        raise NoNode("there is no Node (apt-get install nodejs npm)")
    digest = hashlib.sha256()
    for name in ("package.json", "package-lock.json", "clients.mjs", "schemas.mjs"):
        digest.update((SOURCES / name).read_bytes())
    folder = where / digest.hexdigest()[:12]
    where.mkdir(parents=True, exist_ok=True)
    with FileLock(where / "lock"):
        if not folder.exists():
            begun = where / "begun"
            shutil.rmtree(begun, ignore_errors=True)
            shutil.copytree(SOURCES, begun)
            done = subprocess.run(COMMAND, cwd=begun, capture_output=True, text=True)
            if done.returncode:
                raise NoNode(
                    f"npm cannot install the clients: {(done.stdout + done.stderr)[-2000:]}"
                )
            begun.rename(folder)
    return folder


if __name__ == "__main__":
    print(installed(Path(sys.argv[1])))
