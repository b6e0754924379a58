"""Makes console.svg, the picture at the top of the README: what `streamval demo` shows, by rich's export.

Run it in the environment of `make demo`: .venv/bin/python notebooks/pictures/console.py
"""

import asyncio
import io
import re
from pathlib import Path

from rich.console import Console as RichConsole

import streamval as sv
from streamval.commands.demo import DEMO_PROMPT, DEMO_TOKENS, demo_pipeline


async def main() -> None:
    """Run the demo, and save what the console shows."""
    out = RichConsole(record=True, width=88, file=io.StringIO())
    run = demo_pipeline(sv.LocalBackend(max_tokens=DEMO_TOKENS, stop=["\n"])).start(DEMO_PROMPT)
    run.subscribe(sv.sinks.Console(out, prompt=f"{DEMO_PROMPT}\n\n"))
    await run
    drawn = out.export_svg(title="streamval demo")
    # Its fonts would be fetched from elsewhere: any monospaced one does.
    drawn = re.sub(r"@font-face \{.*?\}\n", "", drawn, flags=re.DOTALL)
    Path(__file__).with_name("console.svg").write_text(drawn)


asyncio.run(main())
