"""``streamval batch``: many prompts, in a job that can be killed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from streamval.commands.exits import INTERRUPTED, INVALID, VALID, one_line_errors
from streamval.errors import UsageError
from streamval.requirements.by_name import search_here


def batch(
    rows: Annotated[
        Path | None,
        typer.Argument(
            help="JSON lines (also .gz) or Parquet: a `prompt` or `messages` a row; - for standard input."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Argument(help="The results: JSON lines, or Parquet by its name.")
    ] = None,
    *,
    pipeline: Annotated[
        str | None,
        typer.Option(
            "--pipeline",
            "-p",
            help="MODULE:NAME or FILE.py:NAME, a Pipeline or a function that makes one; or a file of "
            "`streamval serve`, with --model.",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="A model of that file.")
    ] = None,
    task_limit: Annotated[int, typer.Option(min=1, help="Rows under way at once.")] = 64,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Answer at most this many rows this time.")
    ] = None,
    retry_failed: Annotated[
        bool,
        typer.Option("--retry-failed", help="Ask those rows again that failed or had an error."),
    ] = False,
    max_failures: Annotated[
        int | None, typer.Option(min=1, help="Stop after this many failed rows or errors.")
    ] = None,
    token_budget: Annotated[
        int | None,
        typer.Option(min=1, help="Stop once the kept results have taken this many tokens."),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(help="Answer on a Ray cluster: its address, or `local` for this machine."),
    ] = None,
    status: Annotated[
        Path | None, typer.Option(help="Only print the progress of the job that writes this file.")
    ] = None,
) -> None:
    """Answer many prompts. After a kill, the same command resumes the job.

    Results are kept in OUT.sqlite as they come, and written to OUT when the job ends, unless an error ends it: one
    result a row, with the row's own columns. Ctrl-C finishes the rows under way; a second one drops them.

    Exit status: 0 all results are valid (with --limit, those that were asked for), 1 some failed or had an error,
    2 wrong use, or the provider refuses, 130 interrupted.

    [dim]$[/dim] streamval batch rows.jsonl answers.jsonl --pipeline my_rules:pipeline
    [dim]$[/dim] streamval batch --status answers.jsonl
    """
    with one_line_errors():
        from streamval.batch import status as status_of
        from streamval.commands.batch_job import run_command, said_of_counts

        if status is not None:
            typer.echo(said_of_counts(status_of(status)))
            return
        if rows is None or out is None or pipeline is None:
            raise UsageError("give the rows, the file for the results, and --pipeline MODULE:NAME")
        search_here()  # where MODULE:NAME is looked up
        done = asyncio.run(
            run_command(
                rows,
                out,
                pipeline,
                model,
                ray=ray,
                task_limit=task_limit,
                limit=limit,
                retry_failed=retry_failed,
                max_failures=max_failures,
                token_budget=token_budget,
            )
        )
    if done.ended == "stopped":
        raise typer.Exit(INTERRUPTED)
    wrong = done.in_all.failed or done.in_all.errors
    raise typer.Exit(VALID if done.ended in ("done", "limit") and not wrong else INVALID)
