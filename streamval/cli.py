"""The command line: ``streamval run``, ``replay`` and ``demo``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path  # noqa: TC003  typer reads the annotations
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console as RichConsole
from rich.text import Text

from streamval.backends import default_backend, read_events
from streamval.errors import AuthenticationError, StreamvalError, UnknownModelError, UsageError
from streamval.events import CompletedEvent, StartedEvent
from streamval.pipeline.pipeline import Pipeline
from streamval.pipeline.repair import Repair
from streamval.requirements import NoRepetition, Requirement, forbidden_words, sentence_limit
from streamval.sinks import JSONL, Console
from streamval.types.text import visible

if TYPE_CHECKING:
    from streamval.backends import LocalBackend
    from streamval.types.results import StreamResult

VALID, INVALID, WRONG_USE, BROKEN = 0, 1, 2, 3

app = typer.Typer(
    name="streamval",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
errors = RichConsole(stderr=True)


@app.callback()
def streamval() -> None:
    """Judge a language model's output [bold]while it is being written[/bold].

    The stream is cut into chunks, each chunk is judged as soon as it is there, and the model is
    cancelled at the first failure; a repair goes on from the last good chunk.

    Exit status: 0 valid, 1 not valid after all attempts, 2 wrong use, 3 the model broke off.
    """


@app.command()
def run(
    prompt: Annotated[str, typer.Argument(help="What to ask; - reads it from standard input.")],
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            help="A LiteLLM model name, such as openai/gpt-4o-mini; by default "
            "$STREAMVAL_MODEL, else the embedded model, which continues text.",
        ),
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
    chunk: Annotated[
        str, typer.Option("--chunk", help="sentence, word, line, paragraph or markdown.")
    ] = "sentence",
    retry: Annotated[int, typer.Option("--retry", min=0, help="Further attempts.")] = 1,
    record: Annotated[
        Path | None, typer.Option("--record", help="Write every event to this file, as JSONL.")
    ] = None,
) -> None:
    """Generate, judge and repair, and show it while it happens.

    Never says the same sentence twice, whatever else you require. In a pipe, the text goes to
    standard output and the rest to standard error.

    [dim]$[/dim] streamval run "Facts about the sea:\\n\\nThe sea is"
    [dim]$[/dim] streamval run "Explain tides." -m openai/gpt-4o-mini -r "Mention the moon." --retry 2
    """
    if prompt == "-":
        prompt = sys.stdin.read()
    asked = "".join(f"- {text}\n" for text in require or [])
    requirements = [
        NoRepetition(),
        *(Requirement(text) for text in require or []),
        *(Requirement(text, check_only=True) for text in check or []),
    ]
    with _explained():
        pipeline = Pipeline(
            default_backend(model),
            requirements=requirements,
            chunking=chunk,
            retry=Repair(loop_budget=retry + 1) if retry else None,
            emit_tokens=True,
        )
        if asked:
            prompt = f"The answer has to meet these requirements:\n{asked}\n{prompt}"
        result = asyncio.run(_shown(pipeline, prompt.replace("\\n", "\n"), record))
    _finish(result)


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(help="What --record, or the JSONL sink, has written.")],
    speed: Annotated[
        float, typer.Option(min=0.0, help="1 for the recorded pace, 0 for at once.")
    ] = 1.0,
) -> None:
    """Show a recorded run again. Exits as it did; as not valid where its end is missing."""
    with _explained():
        success = asyncio.run(_replayed(file, speed))
    raise typer.Exit(VALID if success else INVALID)


@app.command()
def demo() -> None:
    """Watch the embedded model break a rule, be cancelled, and go on from the last good sentence.

    Takes no key and no network: a real model of 270 million parameters runs on this machine. The
    failure is its own, as small models repeat themselves.
    """
    from streamval.backends import LocalBackend  # an optional extra

    with _explained():
        pipeline = demo_pipeline(LocalBackend(max_tokens=DEMO_TOKENS))
        result = asyncio.run(_shown(pipeline, DEMO_PROMPT, None))
    _print_savings(result)
    _finish(result)


DEMO_PROMPT = "Facts about water:\n\nWater is"
DEMO_TOKENS = 83


def demo_pipeline(backend: LocalBackend) -> Pipeline:
    """What ``streamval demo`` runs."""
    return Pipeline(
        backend,
        requirements=[
            NoRepetition(),
            sentence_limit(at_most=12),
            forbidden_words(["as an AI", "basically"]),
        ],
        retry=Repair(loop_budget=4),
        emit_tokens=True,
    )


def _print_savings(result: StreamResult) -> None:
    """Print how many tokens cancelling and continuing have saved."""
    out = RichConsole()
    for number, attempt in enumerate(result.attempts, 1):
        if attempt.failures:
            spent = attempt.usage.completion_tokens
            out.print(
                f"  [dim]attempt {number}: cancelled after {spent} of at most {DEMO_TOKENS} tokens, "
                f"{attempt.usage.reused_tokens} of them kept[/dim]",
                highlight=False,
            )


async def _shown(pipeline: Pipeline, prompt: str, record: Path | None) -> StreamResult:
    run = pipeline.start(prompt)
    shown_on = RichConsole(stderr=not sys.stdout.isatty())
    run.subscribe(Console(shown_on))
    if record is not None:
        run.subscribe(JSONL(record))
    return await run


async def _replayed(file: Path, speed: float) -> bool:
    show = Console()
    last: float | None = None
    run_id = None
    success: bool | None = None
    for event in read_events(file):
        if isinstance(event, StartedEvent) and run_id is None:
            run_id = event.run_id
        if event.run_id != run_id:
            continue
        if speed and last is not None:
            await asyncio.sleep(max(event.timestamp - last, 0.0) / speed)
        last = event.timestamp
        show(event)
        if isinstance(event, CompletedEvent):
            success = event.success
    if run_id is None:
        message = f"{file} holds no run"
        raise UsageError(message)
    if success is None:
        show.close()
        typer.echo(f"{file} was cut: it ends before the run does", err=True)
    return bool(success)


def _finish(result: StreamResult) -> NoReturn:
    if not sys.stdout.isatty():
        print(result.text.strip())  # noqa: T201  the text is what a pipe wants
    raise typer.Exit(VALID if result.success else INVALID)


class _explained:  # noqa: N801  reads as a word in a with statement
    """Turns our errors into one line and an exit status."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if not isinstance(error, StreamvalError):
            return
        # What a server or a file said is in it: shown as it is, never read as markup.
        errors.print(Text.assemble(("streamval: ", "bold red"), visible(str(error))))
        wrong_use = isinstance(error, (UsageError, AuthenticationError, UnknownModelError))
        raise typer.Exit(WRONG_USE if wrong_use else BROKEN) from None


def main() -> None:
    """The entry point."""
    app()


if __name__ == "__main__":
    main()
