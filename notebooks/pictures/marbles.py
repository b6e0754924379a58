"""Makes marbles.svg, the drawing in the README: the rules of `streamval demo` on the embedded model.

Run it in the environment of `make demo`: .venv/bin/python notebooks/pictures/marbles.py
"""

import asyncio
from pathlib import Path

import streamval as sv
from streamval.commands.demo import DEMO_TOKENS, demo_pipeline

PROMPT = "Facts about the sea:\n\nThe sea is"


async def main() -> None:
    """Run the demo, and draw it."""
    backend = sv.LocalBackend(max_tokens=DEMO_TOKENS, stop=["\n"])
    await sv.Pipeline(backend).run(PROMPT)  # loads the model
    events = sv.sinks.Collect()
    run = demo_pipeline(backend).start(PROMPT)
    run.subscribe(events)
    await run
    sv.draw(events.events, Path(__file__).with_name("marbles.svg"))


asyncio.run(main())
