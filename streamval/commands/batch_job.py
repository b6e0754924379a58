"""``streamval batch``: a job on the command line, and how far it has come."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from pydantic_core import from_json
from rich.console import Console as RichConsole

from streamval.batch.answering import Answering, Answers
from streamval.batch.events import BatchEvent, BatchProgress, BatchResult, RowEvent
from streamval.batch.fingerprint import fingerprint
from streamval.batch.job import Job
from streamval.batch.rows import name_of
from streamval.batch.table import Counts, status
from streamval.commands.named_pipeline import open_pipeline
from streamval.errors import UsageError
from streamval.pipeline.pipeline import Pipeline
from streamval.requirements.by_name import search_here
from streamval.sinks.progress import ProgressBar
from streamval.types.results import Progress
from streamval.types.text import visible

A_MINUTE = 60.0
"""Seconds between two lines of a log."""

SHOWN = 200
"""Characters of a reason that are shown."""

MOST_REASONS = 1000
"""Different reasons that are counted."""


async def run_command(
    rows: Path,
    out: Path,
    pipeline: str,
    model: str | None,
    *,
    ray: str | None = None,
    **arguments: Any,
) -> BatchResult:
    """Run a job with the options of the command line, and show its progress.

    After the first Ctrl-C, no more rows begin and those under way finish; the second drops them.

    Args:
        rows: Where the rows are.
        out: Where the results go.
        pipeline: ``MODULE:NAME``, or a gateway's file.
        model: Of the gateway's file.
        ray: The address of a cluster to run on; ``local`` for one on this machine; `None` for no cluster.
        **arguments: As for `Job`.
    """
    async with open_pipeline(pipeline, model) as made:
        with _shown(RichConsole(stderr=True)) as show:
            job = Job(
                str(rows), out, fingerprint(made), on_event=show, on_start=show.begin, **arguments
            )
            async with _answers(made, pipeline, model, job, ray) as answers:
                with _kept_is_said(out), _interruptible(job):
                    result = await job.run(answers)
    _say_how_it_went(result, name_of(str(rows)), out)
    for why, count in show.reasons.most_common(3):
        _say(f"{count:,} × {why}")
    return result


@asynccontextmanager
async def _answers(
    made: Pipeline[Any], name: str, model: str | None, job: Job, ray: str | None
) -> AsyncIterator[Answers]:
    if ray is None:
        yield Answering(made, job.tell)
        return
    from streamval.batch.ray import on_cluster  # an optional extra

    source = partial(_open_on_worker, name, model)
    address = None if ray == "local" else ray
    async with on_cluster(source, address=address, task_limit=job.task_limit) as answers:
        yield answers


def _open_on_worker(name: str, model: str | None) -> AbstractAsyncContextManager[Pipeline[Any]]:
    """Open the pipeline in a process of Ray's, which starts in the job's working directory."""
    search_here()
    return open_pipeline(name, model)


@contextmanager
def _kept_is_said(out: Path) -> Iterator[None]:
    """Print how much is kept of a job that ends by an error, or by a second Ctrl-C."""
    try:
        yield
    except (Exception, KeyboardInterrupt):
        with suppress(UsageError):
            _say(f"{out}: {said_of_counts(status(out))}; the same command resumes the job")
        raise


@contextmanager
def _interruptible(job: Job) -> Iterator[None]:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    interrupted = 0

    def interrupt() -> None:
        nonlocal interrupted
        interrupted += 1
        if interrupted == 1:
            job.stop()
            _say(
                "finishing the rows under way; Ctrl-C again drops them, and they are asked again next time"
            )
        elif task is not None:
            task.cancel()

    signals = (signal.SIGINT, signal.SIGTERM)
    try:
        for number in signals:
            loop.add_signal_handler(number, interrupt)
    except (NotImplementedError, RuntimeError):  # Windows; a loop that is not in the main thread
        yield
        return
    try:
        yield
    except asyncio.CancelledError:
        if interrupted > 1:
            raise KeyboardInterrupt from None
        raise
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


class _Shown:
    """Shows how far a job has come: a bar on a terminal, else a line a minute."""

    def __init__(self, bar: ProgressBar | None) -> None:
        self._bar = bar
        self._next = 0.0
        self.reasons: Counter[str] = Counter()

    def begin(self, progress: BatchProgress) -> None:
        if progress.earlier:
            _say(f"{progress.earlier:,} rows have their result already")
        self._next = time.monotonic() + A_MINUTE
        self._show(progress)

    def __call__(self, event: BatchEvent) -> None:
        if isinstance(event, RowEvent):
            self._show(event.progress)
            if event.outcome != "valid":
                self._note(event)
        else:
            _say(
                f"slower: a pause of {event.pause:.0f} s, then {event.rate:.1f} rows/s ({event.reason})"
            )

    def _note(self, event: RowEvent) -> None:
        """Count why rows are not valid, and say the first error when it comes."""
        record = from_json(event.record)
        why = record["error"] or ", ".join(one["requirement"] for one in record["failures"])
        why = visible(why)[:SHOWN]
        if event.outcome == "error" and event.progress.errors == 1:
            _say(f"the first error, of row {record['id']!r}: {why}")
        if why in self.reasons or len(self.reasons) < MOST_REASONS:
            self.reasons[why] += 1

    def _show(self, progress: BatchProgress) -> None:
        if self._bar is not None:
            self._bar(
                Progress(
                    done=progress.done,
                    total=progress.total,
                    valid=progress.valid,
                    invalid=progress.failed,
                    raised=progress.errors,
                    tokens=progress.tokens,
                    seconds=progress.seconds,
                )
            )
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + A_MINUTE
            _say(said_of(progress))


@contextmanager
def _shown(console: RichConsole) -> Iterator[_Shown]:
    if not sys.stderr.isatty():  # rich would take a notebook's pipe for a terminal
        yield _Shown(None)
        return
    with ProgressBar(console) as bar:
        yield _Shown(bar)


def said_of(progress: BatchProgress) -> str:
    """Return the progress of a job as a line of a log.

    Example:
        >>> said_of(BatchProgress(total=10, valid=3, failed=1, tokens=60, seconds=2.0))
        '4 of 10 rows: 3 valid, 1 failed, 0 errors; 60 tokens; 2.0 rows/s, 3 s left'
    """
    rate = progress.done / progress.seconds if progress.seconds else 0.0
    of = "" if progress.total is None else f" of {progress.total:,}"
    left = ""
    if progress.total is not None and rate and progress.done < progress.total:
        left = f", {(progress.total - progress.done) / rate:,.0f} s left"
    return (
        f"{progress.done:,}{of} rows: {progress.valid:,} valid, {progress.failed:,} failed, "
        f"{progress.errors:,} errors; {progress.tokens:,} tokens; {rate:.1f} rows/s{left}"
    )


def said_of_counts(counts: Counts) -> str:
    """Return the counts of a job's table as a line.

    Example:
        >>> from streamval.batch.table import Counts
        >>> said_of_counts(Counts(rows=10, valid=3, failed=1, tokens=60))
        '4 of 10 rows have a result: 3 valid, 1 failed, 0 errors; 60 tokens'
    """
    return (
        f"{counts.done:,} of {counts.rows:,} rows have a result: {counts.valid:,} valid, "
        f"{counts.failed:,} failed, {counts.errors:,} errors; {counts.tokens:,} tokens"
    )


ENDED = {
    "limit": "--limit is reached: the same command goes on",
    "failures": "--max-failures is reached: the same command goes on",
    "tokens": "--token-budget is spent: a larger one goes on",
    "stopped": "interrupted: the same command goes on",
}


def _say_how_it_went(result: BatchResult, rows: str, out: Path) -> None:
    if not result.in_all.rows:
        _say(f"there are no rows in {rows}")
    _say(f"this time: {said_of(result.this_time)}")
    _say(f"{out}: {said_of_counts(result.in_all)}")
    if result.ended != "done":
        _say(f"{ENDED[result.ended]} with the rest of {rows}")
    elif result.in_all.failed or result.in_all.errors:
        _say("--retry-failed asks those again that failed or had an error")


def _say(line: str) -> None:
    # A provider's message may be in it: none of its control characters reaches the terminal.
    print(f"{time.strftime('%H:%M:%S')} {visible(line)}", file=sys.stderr, flush=True)
