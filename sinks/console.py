"""`Console`: a run in the terminal, while it happens."""

from __future__ import annotations

import os
import time

from rich.console import Console as RichConsole
from rich.console import Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from streamval.events import BaseEvent, CompletedEvent, RetryEvent, StartedEvent
from streamval.types.text import visible
from streamval.view.labels import (
    Words,
    called,
    outcome,
    seconds,
    standing,
    thinking,
    what_became_of,
)
from streamval.view.run_view import RunView, Snapshot

FRAMES_A_SECOND = 15
SHOWN = 1000
"""Characters of a name or a reason."""

NARROWEST = 12
"""Characters a line at least, however narrow the terminal."""

JUPYTER_WIDTH = 72
"""Characters a line in a notebook. rich assumes 115, but the cells are narrower."""

_MARKS = {
    "pass": Text("✓", "bold green"),
    "fail": Text("✗", "bold red"),
    "unknown": Text("·", "dim"),
    "waiting": Text("·", "dim"),
}

_STYLES = {"good": "green", "bad": "red", "warning": "yellow", "plain": ""}


def _rendered(
    shown: Snapshot, prompt: str = "", *, height: int | None = None, width: int = 80
) -> RenderableType:
    """Return the current state of a run. With a `height`, truncate a longer text to its end."""
    width = max(width, NARROWEST)
    room = (
        None if height is None else max(height - len(shown["rows"]) - len(shown["attempts"]) - 7, 3)
    )
    thought = _reasoning(shown, width)
    if room is not None and thought is not None:
        room = max(room - 2, 3)
    text = _text(shown, prompt, None if room is None else (room + 1) * width)
    if room is not None:
        lines = text.wrap(RichConsole(width=width), width - 4)
        if len(lines) > room:
            text = Text("…\n", "dim") + Text("\n").join(lines[-room:])
    chunking = visible(shown["chunking"])
    title = Text.assemble(
        (visible(shown["model"]), "bold"), (f" · {chunking} by {chunking}", "dim")
    )
    style = {"valid": "green", "waiting": "cyan", "running": "cyan"}.get(shown["state"], "red")
    parts: list[RenderableType] = [] if thought is None else [thought]
    parts.append(Panel(text, title=title, title_align="left", border_style=style, padding=(0, 1)))
    if calls := called(shown):
        parts.append(_calls(calls))
    if shown["rows"]:
        parts.append(_requirements(shown))
    if len(shown["attempts"]) > 1:
        parts.append(_attempts(shown))
    parts.append(_summary(shown))
    return Group(*parts)


def _text(shown: Snapshot, prompt: str, limit: int | None) -> Text:
    """Return the standing, the just rejected and the unchecked text, each truncated to its end."""
    stands, rejected = standing(shown)
    end = slice(None) if limit is None else slice(-limit, None)
    text = Text().append(prompt, "dim").append(visible(stands[end]))
    if shown["state"] == "running":
        text.append(visible(rejected[end]), "red strike")
    text.append(visible(shown["pending"][end]), "dim italic")
    return text[len(text.plain) - len(text.plain.lstrip()) :]


def _reasoning(shown: Snapshot, width: int) -> Text | None:
    """Return the reasoning, folded to a line and its last words; `None` if there is none."""
    said = shown["reasoning"]
    written = said["text"] + said["pending"]
    if not (written or said["rejected"]):
        return None
    line = Text(f"{thinking(shown)}\n", "dim")
    stands, room = " ".join(visible(written[-4 * width :]).split()), max(width - 6, NARROWEST)
    line.append(f"  … {stands[-room:]}" if len(stands) > room else f"  {stands}", "dim italic")
    if said["rejected"] and shown["state"] == "running":
        line.append(f" {visible(said['rejected'][-room:])}", "red strike")
    return line


def _calls(calls: list[Words]) -> Table:
    table = _marked()
    for words in calls:
        style = {"good": "green", "bad": "red strike"}.get(words.kind, "dim italic")
        table.add_row(Text("→", style), Text(_short(words.text), style))
    return table


def _requirements(shown: Snapshot) -> Table:
    table = _marked()
    table.add_column(style="dim", overflow="fold")
    for row in shown["rows"]:
        judged = f"{row['judged']} judged" if row["judged"] else ""
        if judged and row["seconds"]:
            judged += f", {seconds(row['seconds'])}"
        said = Text(_short(row["reason"]), "red") if row["state"] == "fail" else Text(judged)
        table.add_row(_MARKS[row["state"]], Text(_short(row["name"])), said)
    return table


def _attempts(shown: Snapshot) -> Table:
    table = _marked()
    for attempt in shown["attempts"][:-1]:
        line = Text(f"attempt {attempt['number']} rejected ")
        line.append(f"({_short(attempt['reason'])})", "red")
        line.append(f", {what_became_of(attempt)}", "yellow")
        table.add_row(Text("↻", "yellow"), line)
    return table


def _summary(shown: Snapshot) -> Table:
    table = _marked()
    if shown["error"] is not None:
        table.add_row(_MARKS["fail"], Text(_short(shown["error"]), "bold red"))
    elif shown["usage"] is None:
        number = shown["attempts"][-1]["number"] if shown["attempts"] else 1
        table.add_row(Text("●", "cyan"), Text(f"attempt {number}", "cyan"))
    else:
        mark = _MARKS["pass" if shown["state"] == "valid" else "fail"]
        said = [(words.text, _STYLES[words.kind]) for words in outcome(shown)]
        table.add_row(mark, Text.assemble((said[0][0], f"bold {said[0][1]}"), *said[1:]))
    return table


def _short(text: str) -> str:
    """Return a name or a reason, truncated for the terminal."""
    return visible(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")


def _marked() -> Table:
    """Return a table of a mark and a text with a hanging indent."""
    table = Table.grid(padding=(0, 1))
    table.add_column(width=2, justify="right")
    table.add_column(overflow="fold")
    return table


class Console:
    """Shows a run in the terminal, while it happens.

    Shows the text as it is written (dim until it is checked, struck out if rejected), the verdict of
    each requirement, the attempts, and the tokens spent.

    To see text before it is checked, the pipeline needs `emit_tokens=True`. Where there is no
    terminal, it prints a line for each attempt and the outcome instead. One run at a time.

    Args:
        console: A rich console to draw on; by default standard output.
        prompt: Text to show dim before the output, such as the prompt of a base model.

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
        if self._console.is_jupyter and "JUPYTER_COLUMNS" not in os.environ:
            self._console.width = JUPYTER_WIDTH
        self._prompt = visible(prompt or "")
        self._view = RunView()
        self._live: Live | None = None
        self._drawn = 0.0
        self._showing = False

    def __call__(self, event: BaseEvent) -> None:
        """Show an event."""
        self._view.apply(event)
        if isinstance(event, StartedEvent):
            self._open()
        elif isinstance(event, CompletedEvent):
            self._close()
        elif self._live is not None:
            # Drawn here and not in rich's own thread, which could see a half-updated view.
            now = time.monotonic()
            if isinstance(event, RetryEvent) or now - self._drawn >= 1 / FRAMES_A_SECOND:
                height, width = self._console.height, self._console.width
                shown = _rendered(self._view.snapshot(), self._prompt, height=height, width=width)
                self._live.update(shown, refresh=True)
                # Drawing may take long: limit it to a tenth of the time, counted from the end of a frame.
                self._drawn = time.monotonic() + 9 * (time.monotonic() - now)
        elif isinstance(event, RetryEvent):
            line = f"attempt {event.attempt - 1} rejected: {visible(event.reason)}"
            # Text that goes on is in the middle of a line, where both outputs have one place.
            self._console.print(Text(f"\n{line}" if event.keep_chunks else line))

    def close(self) -> None:
        """Show the last state of a run whose recording ends before the run does.

        After the end of a run it does nothing.
        """
        if self._showing:
            self._close()

    def _open(self) -> None:
        if self._live is not None:  # a recording may begin twice
            self._live.stop()
        self._showing = True
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()

    def _close(self) -> None:
        self._showing = False
        if self._live is not None:
            self._live.stop()
            self._live = None
        self._console.print(_rendered(self._view.snapshot(), self._prompt))
