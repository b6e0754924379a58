"""`ProgressBar`: the progress of `Pipeline.map`, in a terminal or a notebook."""

from __future__ import annotations

from typing import Self

from rich.console import Console as RichConsole
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress
from rich.table import Column

from streamval.types.results import Progress


class ProgressBar:
    """Shows the progress of `Pipeline.map` or a batch: prompts, verdicts, prompts a second, tokens, time.

    A context manager: on exit the bar stops and stays visible.

    Args:
        console: A rich console to draw on; by default standard error, to leave pipes alone.

    Example:
        >>> import io
        >>> from rich.console import Console as RichConsole
        >>> from streamval.types.results import Progress
        >>> out = io.StringIO()
        >>> with ProgressBar(RichConsole(file=out, width=110)) as show:
        ...     show(Progress(done=3, total=3, valid=2, invalid=1, tokens=60, seconds=2.0))
        >>> "3/3" in out.getvalue(), "2 valid, 1 failed, 1.5/s, 60 tokens" in out.getvalue()
        (True, True)
    """

    def __init__(self, console: RichConsole | None = None) -> None:
        from rich.console import Console as RichConsole  # as its name is taken above

        self._bar = RichProgress(
            BarColumn(bar_width=12),
            MofNCompleteColumn(table_column=Column(no_wrap=True, min_width=7)),
            TextColumn(
                "{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis")
            ),
            TimeElapsedColumn(table_column=Column(no_wrap=True)),
            TextColumn("left:"),
            TimeRemainingColumn(table_column=Column(no_wrap=True)),
            console=console or RichConsole(stderr=True),
        )
        self._task: TaskID = self._bar.add_task("", total=None)

    def __call__(self, progress: Progress) -> None:
        """Show the progress."""
        self._bar.start()  # does nothing inside of a `with` statement
        parts = [f"{progress.valid} valid", f"{progress.invalid} failed"]
        if progress.raised:
            parts.append(f"{progress.raised} errors")
        if progress.seconds:
            parts.append(f"{progress.done / progress.seconds:.1f}/s, {progress.tokens:,} tokens")
        self._bar.update(
            self._task, completed=progress.done, total=progress.total, description=", ".join(parts)
        )
        if progress.done == progress.total:
            self._bar.stop()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
