"""The command line: ``streamval run``, ``replay``, ``draw``, ``serve``, ``batch``, ``rules`` and ``demo``."""

from __future__ import annotations

import asyncio
import os
import sys
import webbrowser
from contextlib import asynccontextmanager, suppress
from pathlib import Path  # noqa: TC003  typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console as RichConsole
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from streamval import __version__
from streamval.backends import default_backend, read_events
from streamval.errors import AuthenticationError, StreamvalError, UnknownModelError, UsageError
from streamval.events import CompletedEvent, StartedEvent
from streamval.pipeline.pipeline import Pipeline
from streamval.pipeline.repair import Repair
from streamval.requirements import (
    NoRepetition,
    Requirement,
    finished,
    forbidden_words,
    ready_requirements,
    sentence_limit,
)
from streamval.requirements.named import requirement_written
from streamval.sinks import JSONL, Console, Piped
from streamval.structured.imported import type_in
from streamval.types.text import visible
from streamval.view import draw as drawn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from streamval.backends import Backend, LocalBackend
    from streamval.pipeline.subscribers import Sink
    from streamval.types.results import StreamResult

VALID, INVALID, WRONG_USE, BROKEN, INTERRUPTED = 0, 1, 2, 3, 130

app = typer.Typer(
    name="streamval",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
errors = RichConsole(stderr=True)
LONGEST_PAUSE = 600.0
"""Seconds between two events of a recording: what is longer is left out."""

WATCH_HELP = "Show the run on a page in the browser as well, on this machine only, until Ctrl-C."


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
    cancelled at the first failure; a repair goes on from the last good chunk.

    Exit status: 0 valid, 1 not valid after all attempts, 2 wrong use, 3 the model broke off,
    130 interrupted.
    """
    del version


@app.command()
def run(
    prompt: Annotated[str, typer.Argument(help="What to ask; - reads it from standard input.")],
    *,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            help="A LiteLLM model name, such as openai/gpt-4o-mini; by default "
            "$STREAMVAL_MODEL, else the embedded model, which continues text.",
        ),
    ] = None,
    api_base: Annotated[
        str | None,
        typer.Option("--api-base", help="Where the model is, such as http://localhost:8000/v1."),
    ] = None,
    system: Annotated[
        str | None, typer.Option("--system", help="What to tell the model before the prompt.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", min=1, help="Tokens of the answer at most.")
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            "--require",
            "-r",
            help="What the answer must meet: put into the prompt, and judged by the model at the end. "
            "Repeatable.",
        ),
    ] = None,
    check: Annotated[
        list[str] | None,
        typer.Option("--check", "-c", help="The same, but not put into the prompt. Repeatable."),
    ] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            help="A ready requirement: NAME, or NAME=JSON with its arguments; `streamval rules` "
            "lists them. Repeatable.",
        ),
    ] = None,
    output_format: Annotated[
        str | None,
        typer.Option(
            "--format", help="FILE.py:Model: the answer must be JSON for that pydantic model."
        ),
    ] = None,
    chunk: Annotated[
        str, typer.Option("--chunk", help="sentence, word, line, paragraph or markdown.")
    ] = "sentence",
    retry: Annotated[int, typer.Option("--retry", min=0, help="Further attempts.")] = 1,
    record: Annotated[
        Path | None,
        typer.Option(
            "--record",
            help="Write every event to this file, as JSONL, over an older recording.",
        ),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help=WATCH_HELP)] = False,
) -> None:
    """Generate, judge and repair, and show it while it happens.

    Without --format, it never says the same sentence twice, whatever else you require. In a pipe, the
    text goes to standard output as it is delivered (JSON as a whole), and the rest to standard error;
    what a restart takes back stays in the pipe, the new text on a line of its own.

    [dim]$[/dim] streamval run "Facts about the sea:\\n\\nThe sea is" --rule 'word_limit={"at_most": 80}'
    [dim]$[/dim] streamval run "Explain tides." -m openai/gpt-4o-mini -r "Mention the moon." --retry 2
    """
    with _explained():
        requirements = [
            *([] if output_format else [NoRepetition()]),
            *(requirement_written(written) for written in rule or []),
            *(Requirement(text) for text in require or []),
            *(Requirement(text, check_only=True) for text in check or []),
        ]
        wanted_type = type_in(output_format) if output_format else None
        backend = _backend(model, api_base)  # slow, so the arguments that may be wrong go first
        pipeline = Pipeline(
            backend,
            requirements=requirements,
            chunking=chunk,
            retry=Repair(loop_budget=retry + 1) if retry else None,
            emit_tokens=True,
            emit_verdicts=watch or record is not None,
            format=wanted_type,
            options={"max_tokens": max_tokens} if max_tokens else None,
        )
        asked = (sys.stdin.read() if prompt == "-" else prompt).replace("\\n", "\n")
        if require:
            wanted = "".join(f"- {text}\n" for text in require)
            asked = f"The answer has to meet these requirements:\n{wanted}\n{asked}"
        messages = [{"role": "user", "content": asked}]
        if system is not None:
            messages.insert(0, {"role": "system", "content": system})
        # A base model goes on from the prompt: without it, its text begins in mid-sentence.
        shown = asked if backend.supports_prefix and system is None else None
        show = _shown(pipeline, messages, record, shown, whole=bool(output_format), watch=watch)
        result = asyncio.run(show)
    raise typer.Exit(VALID if result.success else INVALID)


def _backend(model: str | None, api_base: str | None) -> Backend:
    if api_base is None:
        return default_backend(model)
    if model is None:
        message = "--api-base needs --model, the name under which that server knows the model"
        raise UsageError(message)
    from streamval.backends.litellm import LiteLLMBackend, import_litellm  # slow to import
    from streamval.backends.openai import OpenAIBackend

    if model.partition("/")[0] in {str(p.value) for p in import_litellm().provider_list}:
        return LiteLLMBackend(model, api_base=api_base)
    return OpenAIBackend(model, base_url=api_base)


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(help="What --record, or the JSONL sink, has written.")],
    speed: Annotated[
        float, typer.Option(min=0.0, help="1 for the recorded pace, 0 for at once.")
    ] = 1.0,
    watch: Annotated[bool, typer.Option("--watch", help=WATCH_HELP)] = False,
) -> None:
    """Show a recorded run again. Exits as it did; as not valid where its end is missing."""
    with _explained():
        success = asyncio.run(_replayed(file, speed, watch=watch))
    raise typer.Exit(VALID if success else INVALID)


@app.command()
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
    """Draw a recorded run as a marble diagram: where its time went, who failed what, what was kept.

    [dim]$[/dim] streamval run "The sea is" --record sea.jsonl && streamval draw sea.jsonl -o sea.html
    """
    output = output or file.with_suffix(".svg")
    with _explained():
        drawn(file, output)
    typer.echo(f"{output}: {output.stat().st_size:,} bytes")


@app.command()
def serve(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="What to serve, as YAML; without it, the embedded model and a few rules."
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
    with _explained():
        from streamval.serve import read_configuration  # an optional extra
        from streamval.serve import serve as serving

        if check:
            models = ", ".join(read_configuration(file).models)
            typer.echo(f"{file or 'the default configuration'} can be served: {models}")
        else:
            serving(file, workers=workers, port=port)


@app.command()
def batch(
    rows: Annotated[
        Path | None,
        typer.Argument(
            help="JSON lines or Parquet: a `prompt` or `messages` a row; - for standard input."
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
        int | None, typer.Option(min=1, help="Answer so many rows at most, this time.")
    ] = None,
    retry_failed: Annotated[
        bool,
        typer.Option("--retry-failed", help="Ask those rows again that failed or had an error."),
    ] = False,
    max_failures: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many that failed or had an error.")
    ] = None,
    token_budget: Annotated[
        int | None,
        typer.Option(min=1, help="Stop once the results that are kept have taken so many tokens."),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(help="Answer on a Ray cluster: its address, or `local` for this machine."),
    ] = None,
    status: Annotated[
        Path | None, typer.Option(help="Only say how far the job that writes this file has come.")
    ] = None,
) -> None:
    """Answer many prompts. Killed anywhere, the same command goes on where it was.

    Results are kept in OUT.sqlite as they come, and written to OUT when the job ends, unless an error ends it: one
    result a row, with the row's own columns. Ctrl-C finishes the rows under way; a second one drops them.

    Exit status: 0 all results are valid (with --limit, those that were asked for), 1 some failed or had an error,
    2 wrong use, or the provider refuses, 130 interrupted.

    [dim]$[/dim] streamval batch rows.jsonl answers.jsonl --pipeline my_rules:pipeline
    [dim]$[/dim] streamval batch --status answers.jsonl
    """
    with _explained():
        from streamval.batch import status as status_of
        from streamval.batch.command import run_command, said_of_counts

        if status is not None:
            typer.echo(said_of_counts(status_of(status)))
            return
        if rows is None or out is None or pipeline is None:
            message = "give the rows, the file for the results, and --pipeline MODULE:NAME"
            raise UsageError(message)
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


@app.command()
def rules() -> None:
    """List the ready requirements for --rule: what each does, what it takes, and when it fails."""
    out = RichConsole(highlight=False)
    for ready in ready_requirements().values():
        takes = ", ".join(
            name if parameter.default is parameter.empty else f"{name}={parameter.default}"
            for name, parameter in ready.arguments.items()
        )
        out.print(Text.assemble((ready.name, "bold cyan"), (f"  {takes}", "dim")))
        out.print(Padding(Text(f"{ready.summary}\nFails {ready.fails}."), (0, 0, 0, 4)))


@app.command()
def demo() -> None:
    """Watch the embedded model break a rule, be cancelled, and go on from the last good sentence.

    Takes no key and no network: a real model of 270 million parameters runs on this machine. The
    failure is its own, as small models repeat themselves.
    """
    from streamval.backends import LocalBackend  # an optional extra

    with _explained():
        pipeline = demo_pipeline(LocalBackend(max_tokens=DEMO_TOKENS, stop=["\n"]))
        result = asyncio.run(_shown(pipeline, DEMO_PROMPT, None, DEMO_PROMPT))
    _print_savings(result)
    raise typer.Exit(VALID if result.success else INVALID)


DEMO_PROMPT = "Facts about water:\n\nWater is"
DEMO_TOKENS = 120


def demo_pipeline(backend: LocalBackend) -> Pipeline:
    """What ``streamval demo`` runs. The text ends where the model ends its paragraph."""
    return Pipeline(
        backend,
        requirements=[
            NoRepetition(),
            sentence_limit(at_most=12),
            forbidden_words(["as an AI", "basically"]),
            finished(),
        ],
        retry=Repair(loop_budget=4),
        emit_tokens=True,
        emit_verdicts=True,
    )


def _print_savings(result: StreamResult) -> None:
    """Print how many tokens cancelling and continuing have saved."""
    out = RichConsole(stderr=not sys.stdout.isatty())
    for number, attempt in enumerate(result.attempts, 1):
        if attempt.failures:
            spent = attempt.usage.completion_tokens
            out.print(
                f"  [dim]attempt {number}: cancelled after {spent} of at most {DEMO_TOKENS} tokens, "
                f"{attempt.usage.reused_tokens} of them kept[/dim]",
                highlight=False,
            )


async def _shown(
    pipeline: Pipeline,
    prompt: Any,
    record: Path | None,
    continued: str | None,
    *,
    whole: bool = False,
    watch: bool = False,
) -> StreamResult:
    async with _page(wanted=watch) as pages:
        run = pipeline.start(prompt)
        for show in [*_displays(_console(continued), run.cancel, whole=whole), *pages]:
            run.subscribe(show)
        if record is not None:
            run.subscribe(JSONL(_emptied(record)))
        return await run


def _emptied(record: Path) -> Path:
    """The file of a recording, without an older one in it. Nothing else is overwritten."""
    if record.is_file() and record.stat().st_size:
        try:
            next(iter(read_events(record)), None)
        except UsageError:
            message = f"{record} is there, and is no recording; name another file"
            raise UsageError(message) from None
        record.write_bytes(b"")
    return record


def _console(continued: str | None = None) -> Console:
    """On standard error where standard output is a pipe, which gets the text alone."""
    if sys.stdout.isatty():
        return Console(prompt=continued)
    return Console(RichConsole(stderr=True), prompt=continued)


def _displays(
    console: Console, leave: Callable[[], object] = lambda: None, *, whole: bool = False
) -> list[Sink]:
    return [console] if sys.stdout.isatty() else [Piped(leave, whole=whole), console]


@asynccontextmanager
async def _page(*, wanted: bool) -> AsyncIterator[list[Sink]]:
    """The page of ``--watch``, if it is wanted. It stays after the run, until Ctrl-C."""
    if not wanted:
        yield []
        return
    from streamval.view.watch import Watch  # an optional extra

    async with Watch() as page:
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


async def _replayed(file: Path, speed: float, *, watch: bool) -> bool:
    console = _console()
    last: float | None = None
    run_id = None
    success: bool | None = None
    left = asyncio.Event()
    async with _page(wanted=watch) as pages:
        shows = [*_displays(console, left.set), *pages]
        for event in read_events(file):
            if left.is_set():  # who reads our pipe has gone
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
        message = f"{file} holds no run"
        raise UsageError(message)
    if success is None:
        console.close()
        typer.echo(f"{file} was cut: it ends before the run does", err=True)
    return bool(success)


class _explained:  # noqa: N801  reads as a word in a with statement
    """Turns our errors into one line and an exit status."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, KeyboardInterrupt):
            _say("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        if not isinstance(error, StreamvalError):
            return
        _say(str(error))
        wrong_use = isinstance(error, (UsageError, AuthenticationError, UnknownModelError))
        raise typer.Exit(WRONG_USE if wrong_use else BROKEN) from None


def _say(problem: str) -> None:
    # What a server or a file said is in it: shown as it is, never read as markup.
    said = Table.grid(padding=0)
    said.add_row(Text("streamval: ", "bold red"), Text(visible(problem), overflow="fold"))
    errors.print(said)


def main() -> None:
    """The entry point."""
    app()


if __name__ == "__main__":
    main()
