"""`Console`: a run in the terminal, while it happens."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from rich.console import Console as RichConsole
from rich.console import Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from streamval.events import (
    ChunkEvent,
    CompletedEvent,
    ErrorEvent,
    FullValidationEvent,
    QuickCheckEvent,
    RetryEvent,
    StartedEvent,
    StreamingDoneEvent,
    TokenEvent,
)
from streamval.types.text import visible

if TYPE_CHECKING:
    from rich.console import RenderableType

    from streamval.events import BaseEvent

FRAMES_A_SECOND = 15
_KEPT = {
    "continue": "went on from there",
    "ask": "was asked to go on from there",
    "restart": "began again",
}
_CUT = {
    "length": "cut off by the limit on tokens",
    "max_tokens": "cut off by the limit on tokens",
    "content_filter": "cut off by the provider's content filter",
    "refusal": "the model refused",
}
"""The finish reasons that a reader must know of."""

_MARKS = {
    "pass": Text("✓", "bold green"),
    "fail": Text("✗", "bold red"),
    "unknown": Text("·", "dim"),
    "waiting": Text("·", "dim"),
}


@dataclass
class _Row:
    """What is known of one requirement in this attempt."""

    name: str
    state: Literal["pass", "fail", "unknown", "waiting"] = "waiting"
    judged: int = 0
    reason: str = ""


@dataclass
class _Picture:
    """What a run looks like after the events so far."""

    prompt: str = ""
    model: str = ""
    chunking: str = ""
    attempt: int = 1
    rows: list[_Row] = field(default_factory=list)
    history: list[tuple[int, str, str]] = field(default_factory=list)
    delivered: list[str] = field(default_factory=list)
    unchecked: str = ""
    rejected: str = ""
    cut: str = ""
    completed: CompletedEvent | None = None
    error: str = ""

    def update(self, event: BaseEvent) -> None:  # noqa: C901, PLR0912  one case an event
        """Take in an event."""
        match event:
            case StartedEvent():
                self.model, self.chunking = visible(event.model), visible(event.chunking)
                self.rows = [_Row(visible(name)) for name in event.requirements]
            case TokenEvent():
                self.rejected = ""
                self.unchecked += visible(event.text)
            case QuickCheckEvent():
                if not event.passed:
                    self.rejected, self.unchecked = self.unchecked, ""
                for row, result in zip(self.rows, event.results, strict=True):
                    if result is not None:
                        row.judged += 1
                        row.state, row.reason = result.success, visible(result.reason or "")
            case ChunkEvent():
                piece = visible(event.separator + event.text)
                self.delivered.append(piece)
                self.unchecked = self.unchecked.removeprefix(piece)
            case StreamingDoneEvent():
                self.cut = _CUT.get(event.finish_reason or "", "")
            case FullValidationEvent():
                for row, verdict in zip(self.rows, event.results, strict=True):
                    row.state = "pass" if verdict else "fail"
                    row.reason = visible(verdict.reason or verdict.error or "")
            case RetryEvent():
                kept = _KEPT[event.mode]
                self.history.append((event.attempt - 1, visible(event.reason), kept))
                self.attempt, self.unchecked, self.cut = event.attempt, "", ""
                del self.delivered[event.keep_chunks :]
                for row in self.rows:
                    row.state, row.reason, row.judged = "waiting", "", 0
            case ErrorEvent():
                self.error = visible(f"{event.exception_type}: {event.detail}")
            case CompletedEvent():
                self.completed = event
                self.unchecked = self.rejected = ""

    def render(self, height: int | None = None, width: int = 80) -> RenderableType:
        """The picture; with a height, only the end of a text that would not fit."""
        text = Text().append(self.prompt, "dim").append("".join(self.delivered))
        text.append(self.rejected, "red strike")
        text.append(self.unchecked, "dim italic")
        text = text[len(text.plain) - len(text.plain.lstrip()) :]
        room = None if height is None else max(height - len(self.rows) - len(self.history) - 8, 3)
        if room is not None:
            lines = text.wrap(RichConsole(width=width), width - 4)
            if len(lines) > room:
                text = Text("…\n", "dim") + Text("\n").join(lines[-room:])
        title = Text.assemble(
            (self.model, "bold"), (f" · {self.chunking} by {self.chunking}", "dim")
        )
        style = "cyan"
        if self.completed is not None:
            style = "green" if self.completed.success else "red"
        parts: list[RenderableType] = [
            Panel(text, title=title, title_align="left", border_style=style, padding=(0, 1))
        ]
        if self.rows:
            parts.append(self._requirements())
        if self.history:
            parts.append(self._attempts())
        parts.append(self._summary())
        return Group(*parts)

    def _requirements(self) -> Table:
        table = _marked()
        table.add_column(style="dim", overflow="fold")
        for row in self.rows:
            judged = f"{row.judged} judged" if row.judged else ""
            reason = Text(row.reason, "red") if row.state == "fail" else Text(judged)
            table.add_row(_MARKS[row.state], Text(row.name), reason)
        return table

    def _attempts(self) -> Table:
        table = _marked()
        for number, reason, what in self.history:
            line = Text(f"attempt {number} cancelled ")
            line.append(f"({reason})", "red").append(f", {what}", "yellow")
            table.add_row(Text("↻", "yellow"), line)
        return table

    def _summary(self) -> Table:
        table, done = _marked(), self.completed
        if self.error:
            table.add_row(_MARKS["fail"], Text(self.error, "bold red"))
        elif done is None:
            table.add_row(Text("●", "cyan"), Text(f"attempt {self.attempt}", "cyan"))
        else:
            table.add_row(_MARKS["pass" if done.success else "fail"], self._outcome(done))
        return table

    def _outcome(self, done: CompletedEvent) -> Text:
        usage = done.usage
        word = ("valid", "bold green") if done.success else ("not valid", "bold red")
        attempts = "1 attempt" if done.attempts_used == 1 else f"{done.attempts_used} attempts"
        line = Text.assemble(word, f" after {attempts} · {usage.completion_tokens} tokens spent")
        if self.cut:
            line.append(f" · {self.cut}", "yellow")
        if usage.discarded_tokens:
            line.append(f" · {usage.discarded_tokens} thrown away", "yellow")
        if usage.reused_tokens:
            line.append(f" · {usage.reused_tokens} saved from rejected attempts", "green")
        return line


def _marked() -> Table:
    """A table of a mark and a text, which is indented where it goes on."""
    table = Table.grid(padding=(0, 1))
    table.add_column(width=2, justify="right")
    table.add_column(overflow="fold")
    return table


class Console:
    """Shows a run in the terminal, while it happens.

    The text as it is written, dim until it is checked, struck out where it was rejected; each
    requirement's verdict; each attempt; what it cost.

    To see text before it is checked, the pipeline needs `emit_tokens=True`. Where there is no
    terminal, it prints a line for each attempt and the outcome instead. One run at a time.

    Args:
        console: A rich console to draw on; by default standard output.
        prompt: What the text goes on from, shown dim before it: the prompt of a base model.

    Example:
        >>> import asyncio, io
        >>> from streamval import Pipeline, ScriptedBackend
        >>> out = io.StringIO()
        >>> async def main():
        ...     run = Pipeline(ScriptedBackend("All is well.")).start("How is it?")
        ...     run.subscribe(Console(RichConsole(file=out, width=60)))
        ...     await run
        >>> asyncio.run(main())
        >>> "All is well." in out.getvalue(), "valid after 1 attempt" in out.getvalue()
        (True, True)
    """

    def __init__(self, console: RichConsole | None = None, *, prompt: str | None = None) -> None:
        self._console = console or RichConsole()
        self._prompt = visible(prompt or "")
        self._picture = _Picture(self._prompt)
        self._live: Live | None = None
        self._drawn = 0.0
        self._showing = False

    def __call__(self, event: BaseEvent) -> None:
        """Show an event."""
        if isinstance(event, StartedEvent):
            self._picture = _Picture(self._prompt)
            self._open()
        self._picture.update(event)
        if isinstance(event, CompletedEvent):
            self._close()
        elif self._live is not None:
            # Drawn here and not by rich's own thread, which would see a picture half updated.
            now = time.monotonic()
            turning_point = isinstance(event, RetryEvent)
            if turning_point or now - self._drawn >= 1 / FRAMES_A_SECOND:
                self._drawn = now
                self._live.update(self._render(), refresh=True)
        elif isinstance(event, RetryEvent):
            line = f"attempt {event.attempt - 1} cancelled: {visible(event.reason)}"
            self._console.print(Text(line))

    def close(self) -> None:
        """Show what there is of a run whose end will not come, as its recording was cut.

        After the end of a run it does nothing.
        """
        if self._showing:
            self._close()

    def _open(self) -> None:
        self._showing = True
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()

    def _close(self) -> None:
        self._showing = False
        if self._live is not None:
            self._live.stop()
            self._live = None
        self._console.print(self._picture.render())

    def _render(self) -> RenderableType:
        return self._picture.render(self._console.height, self._console.width)
