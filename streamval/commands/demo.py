"""``streamval demo``: the embedded model breaks a rule, and is repaired."""

from __future__ import annotations

import asyncio
import sys

import typer
from rich.console import Console

from streamval.backends import LocalBackend
from streamval.commands.display import shown
from streamval.commands.exits import INVALID, VALID, one_line_errors
from streamval.pipeline.pipeline import Pipeline
from streamval.pipeline.repair import Repair
from streamval.requirements import NoRepetition, finished, forbidden_words, sentence_limit
from streamval.types.results import StreamResult

DEMO_PROMPT = "Write a long paragraph about wolves. Say many different things."
DEMO_TOKENS = 120


def demo() -> None:
    """Watch the embedded model break a rule, be cancelled, and continue from the last good sentence.

    Takes no key and no network: a real model of 270 million parameters runs on this machine. The
    failure is its own, as small models repeat themselves.
    """
    with one_line_errors():
        pipeline = demo_pipeline(LocalBackend(max_tokens=DEMO_TOKENS, stop=["\n"]))
        result = asyncio.run(shown(pipeline, DEMO_PROMPT, None, f"{DEMO_PROMPT}\n\n"))
    _print_savings(result)
    raise typer.Exit(VALID if result.success else INVALID)


def demo_pipeline(backend: LocalBackend) -> Pipeline:
    """Return the pipeline of ``streamval demo``. The text is one paragraph."""
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
    out = Console(stderr=not sys.stdout.isatty())
    for number, attempt in enumerate(result.attempts, 1):
        if attempt.failures:
            spent = attempt.usage.completion_tokens
            out.print(
                f"  [dim]attempt {number}: cancelled after {spent} of at most {DEMO_TOKENS} tokens, "
                f"{attempt.usage.reused_tokens} of them kept[/dim]",
                highlight=False,
            )
