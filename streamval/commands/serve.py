"""``streamval serve``: the gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamval.commands.exits import one_line_errors
from streamval.requirements.by_name import search_here


def serve(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="The gateway's file, in YAML; by default, the embedded model with a few rules."
        ),
    ] = None,
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether the file can be served.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes behind the one address.")] = 1,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="In place of the port in the file.")
    ] = None,
) -> None:
    """Serve any client of OpenAI's shape, and send it only text that has been judged.

    [dim]$[/dim] streamval serve
    [dim]$[/dim] curl localhost:8080/v1/completions -H "content-type: application/json" \\
        -d '{"model": "careful", "prompt": "The sea is", "stream": true}'
    """
    with one_line_errors():
        from streamval.serve import read_configuration  # an optional extra
        from streamval.serve import serve as serving

        if file is not None:
            search_here(file.parent)  # where `python:` rules are looked up
        if check:
            models = ", ".join(read_configuration(file).models)
            typer.echo(f"{file or 'the default configuration'} can be served: {models}")
        else:
            serving(file, workers=workers, port=port)
