"""Shows a run of a command: on the console, in a pipe, on the page of ``--watch``, in a recording."""

from __future__ import annotations

import asyncio
import os
import sys
import webbrowser
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import typer
from rich.console import Console as RichConsole

from streamval.backends import read_events
from streamval.commands.exits import status_of
from streamval.errors import StreamvalError, UsageError
from streamval.pipeline.pipeline import Pipeline
from streamval.pipeline.subscribers import Sink
from streamval.sinks import JSONL, Console, Piped
from streamval.types.results import StreamResult

WATCH_HELP = "Show the run on a page in the browser as well, on this machine only, until Ctrl-C."


async def shown(
    pipeline: Pipeline,
    prompt: Any,
    record: Path | None,
    continued: str | None,
    *,
    whole: bool = False,
    watch: bool = False,
) -> StreamResult:
    """Drive a run, and show it while it happens.

    Args:
        pipeline: What runs.
        prompt: The prompt.
        record: Where its events are written.
        continued: The prompt, where the text continues it.
        whole: Whether a pipe gets the text at the end only.
        watch: Whether a page shows it as well.
    """
    run = pipeline.start(prompt)
    async with page(run.prompt, wanted=watch) as pages:
        for show in [*displays(terminal(continued), run.cancel, whole=whole), *pages]:
            run.subscribe(show)
        if record is not None:
            run.subscribe(JSONL(emptied(record)))
        try:
            return await run
        except StreamvalError as error:  # the console has said why
            raise typer.Exit(status_of(error)) from None


def emptied(record: Path) -> Path:
    """Remove an older recording from a file. Nothing else is overwritten."""
    if record.is_file() and record.stat().st_size:
        try:
            next(iter(read_events(record)), None)
        except UsageError:
            raise UsageError(f"{record} exists and is not a recording; name another file") from None
        record.write_bytes(b"")
    return record


def terminal(continued: str | None = None) -> Console:
    """Return the console; on standard error where standard output is a pipe, which gets only the text."""
    if sys.stdout.isatty():
        return Console(prompt=continued)
    return Console(RichConsole(stderr=True), prompt=continued)


def displays(
    console: Console, leave: Callable[[], object] = lambda: None, *, whole: bool = False
) -> list[Sink]:
    """Return the console, and a sink for the text where standard output is a pipe.

    Args:
        console: Shows the run.
        leave: Called when the pipe's reader has gone.
        whole: Whether the pipe gets the text at the end only.
    """
    return [console] if sys.stdout.isatty() else [Piped(leave, whole=whole), console]


@asynccontextmanager
async def page(prompt: str = "", *, wanted: bool) -> AsyncIterator[list[Sink]]:
    """Open the page of ``--watch``, if it is wanted. It stays after the run, until Ctrl-C."""
    if not wanted:
        yield []
        return
    from streamval.view.watch import Watch  # an optional extra

    async with Watch(prompt) as page:
        typer.echo(f"watch it at {page.url}", err=True)
        if sys.platform != "linux" or {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
            webbrowser.open(page.url)
        try:
            yield [page]
        except Exception:
            await _until_interrupted()
            raise
        await _until_interrupted()


async def _until_interrupted() -> None:
    typer.echo("the run is over; the page stays until Ctrl-C", err=True)
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
