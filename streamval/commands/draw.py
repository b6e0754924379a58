"""``streamval draw``: a recorded run as a picture, or a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamval.commands.exits import one_line_errors
from streamval.view import draw as drawn


def draw(
    file: Annotated[Path, typer.Argument(help="What --record, or the JSONL sink, has written.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="OUT.svg for a picture, OUT.html for a page; by default FILE.svg.",
        ),
    ] = None,
) -> None:
    """Draw a recorded run as a marble diagram: its time, its verdicts, its attempts.

    [dim]$[/dim] streamval run "The sea is" --record sea.jsonl && streamval draw sea.jsonl -o sea.html
    """
    output = output or file.with_suffix(".svg")
    with one_line_errors():
        drawn(file, output)
    typer.echo(f"{output}: {output.stat().st_size:,} bytes")
