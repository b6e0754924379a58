"""The command line: ``streamval run``, ``replay``, ``draw``, ``serve``, ``batch``, ``probe``, ``exposure``, ``rules`` and ``demo``."""

from __future__ import annotations

from typing import Annotated

import typer

from streamval import __version__
from streamval.commands.batch import batch
from streamval.commands.demo import demo
from streamval.commands.draw import draw
from streamval.commands.exposure import exposure
from streamval.commands.probe import probe
from streamval.commands.replay import replay
from streamval.commands.rules import rules
from streamval.commands.run import run
from streamval.commands.serve import serve

app = typer.Typer(
    name="streamval",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"streamval {__version__}")
        raise typer.Exit


@app.callback()
def streamval(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="The version.")
    ] = False,
) -> None:
    """Judge a language model's output [bold]while it is being written[/bold].

    The stream is cut into chunks, each chunk is judged as soon as it is there, and the model is
    cancelled at the first failure; a repair continues from the last good chunk.

    Exit status: 0 valid, 1 not valid after all attempts, 2 wrong use, 3 the model broke off,
    130 interrupted.
    """


for command in (run, replay, draw, serve, batch, probe, exposure, rules, demo):
    app.command()(command)


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
