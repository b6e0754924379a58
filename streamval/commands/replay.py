"""``streamval replay``: a recorded run, shown again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from streamval.backends import read_events
from streamval.commands.display import WATCH_HELP, displays, page, terminal
from streamval.commands.exits import INVALID, VALID, one_line_errors
from streamval.errors import UsageError
from streamval.events import CompletedEvent, StartedEvent

LONGEST_PAUSE = 600.0
"""The longest pause between two events of a recording, in seconds. Longer pauses are shortened."""


def replay(
    file: Annotated[Path, typer.Argument(help="What --record, or the JSONL sink, has written.")],
    speed: Annotated[
        float, typer.Option(min=0.0, help="1 for the recorded pace, 0 for at once.")
    ] = 1.0,
    watch: Annotated[bool, typer.Option("--watch", help=WATCH_HELP)] = False,
) -> None:
    """Show a recorded run again. Exits with 0 if it was valid, with 1 if not or if its end is missing."""
    with one_line_errors():
        success = asyncio.run(_replayed(file, speed, watch=watch))
    raise typer.Exit(VALID if success else INVALID)


async def _replayed(file: Path, speed: float, *, watch: bool) -> bool:
    console = terminal()
    last: float | None = None
    run_id = None
    success: bool | None = None
    left = asyncio.Event()
    async with page(wanted=watch) as pages:
        shows = [*displays(console, left.set), *pages]
        for event in read_events(file):
            if left.is_set():  # the reader of our pipe has gone
                break
            if isinstance(event, StartedEvent) and run_id is None:
                run_id = event.run_id
            if event.run_id != run_id:
                continue
            if speed and last is not None:
                pause = (event.timestamp - last) / speed
                await asyncio.sleep(pause if 0 < pause < LONGEST_PAUSE else 0.0)
            last = event.timestamp
            for show in shows:
                show(event)
            if isinstance(event, CompletedEvent):
                success = event.success
    if run_id is None:
        raise UsageError(f"{file} contains no run")
    if success is None:
        console.close()
        typer.echo(f"{file} was cut: it ends before the run does", err=True)
    return bool(success)
