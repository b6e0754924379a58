"""``streamval batch`` in a folder of its own, with a pipeline that needs no model."""

import json
import subprocess
import sys

STREAMVAL = [sys.executable, "-m", "streamval.cli", "batch"]
MADE = """
import asyncio
import streamval as sv

class Slow(sv.Backend):
    model = "slow"

    async def stream(self, request):
        said = request.messages[-1].content
        await asyncio.sleep(60 if "hang" in said else {pause})
        yield f"{{said}} is {{'bad' if 'fail' in said else 'fine'}}."

pipeline = sv.Pipeline(Slow(), requirements=[sv.forbidden_words(["bad"])])
"""


def made(folder, pause=0.0):
    (folder / "made.py").write_text(MADE.format(pause=pause))


def rows(folder, *prompts):
    lines = (json.dumps({"id": f"r{n}", "prompt": prompt}) for n, prompt in enumerate(prompts))
    (folder / "rows.jsonl").write_text("\n".join(lines))


def run(*arguments, **options):
    return subprocess.run(
        [*STREAMVAL, *map(str, arguments)], capture_output=True, text=True, timeout=90, **options
    )


JOB = ("rows.jsonl", "out.jsonl", "--pipeline", "made:pipeline")


def results(folder):
    return [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
