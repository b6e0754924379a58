"""What an installed wheel must do in an empty environment: run from anywhere but the source tree."""

import asyncio
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import streamval as sv

SOURCE = Path(__file__).parents[2]


async def main() -> None:
    calm = sv.stream_check(lambda text: not text.endswith("!"), "stay calm")
    backend = sv.ScriptedBackend(["All is well. Help!", " We are fine."], supports_prefix=True)
    pipeline = sv.Pipeline(backend, requirements=[calm, sv.finished()], retry=sv.Repair())
    result = await pipeline.run("How are things?")
    assert result.success
    assert result.text == "All is well. We are fine."


assert not Path(sv.__file__).is_relative_to(SOURCE / "streamval"), "the source, not the wheel"
assert (Path(sv.__file__).parent / "py.typed").exists()
assert importlib.metadata.version("streamval-llm") == sv.__version__
for package in ("operators", "chunkers", "sinks"):
    assert getattr(sv, package).__all__
asyncio.run(main())
command = Path(sys.executable).parent / "streamval"
said = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
assert said.strip() == f"streamval {sv.__version__}"
print(f"the wheel of {said.strip()} works")
