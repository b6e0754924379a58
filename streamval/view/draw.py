"""`draw`: a run as a marble diagram, from a recording, a list of events, or a result."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from streamval.backends.recording import read_events
from streamval.errors import UsageError
from streamval.events import BaseEvent, CompletedEvent
from streamval.types.results import StreamResult
from streamval.view.marbles import marbles
from streamval.view.of_result import events_of
from streamval.view.page import drawing_page
from streamval.view.run_view import RunView

if TYPE_CHECKING:
    from collections.abc import Iterable


class Drawing(str):
    """A drawing: its text is the SVG, or the page. Jupyter shows it."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        if self.startswith("<svg"):
            return f"<div>{self}</div>"
        return f'<iframe sandbox srcdoc="{escape(self)}" width="100%" height="600"></iframe>'


def draw(
    source: str | Path | Iterable[BaseEvent] | StreamResult | RunView,
    path: str | Path | None = None,
) -> Drawing:
    """Draw a run as a marble diagram: where its time went, who failed what, and what was kept.

    Time runs to the right. Each attempt has a row of deltas (with `emit_tokens=True`), one of chunks, one
    a lane, with a bar from when the lane was asked to its verdict (with `emit_verdicts=True`), and one of
    what was released. A cross shows where the source was closed.

    Args:
        source: The path of a recording (`sinks.JSONL`), events (`sinks.Collect`), or a result, which
            knows the times of its attempts only. Of several runs in a recording, the first.
        path: Where to save it: ``.svg`` for a picture, ``.html`` for a page, in which hovering, or the
            arrow keys, tell text, verdicts and reasons, and one can zoom. Neither fetches anything.

    Returns:
        The drawing. In Jupyter it shows itself.

    Raises:
        UsageError: If `source` holds no run, or `path` cannot be written or ends in neither.

    Example:
        >>> import asyncio
        >>> from streamval import Pipeline, ScriptedBackend
        >>> from streamval.sinks import Collect
        >>> seen = Collect()
        >>> async def main():
        ...     run = Pipeline(ScriptedBackend("All is well."), emit_verdicts=True).start("How is it?")
        ...     run.subscribe(seen)
        ...     await run
        >>> asyncio.run(main())
        >>> draw(seen.events)[:4]
        '<svg'
    """
    suffix = ".svg" if path is None else Path(path).suffix.lower()
    if suffix not in (".svg", ".html"):
        message = f"a drawing is saved as .svg or .html, not as {str(path)!r}"
        raise UsageError(message)
    view = view_of(source)
    drawn = Drawing(marbles(view) if suffix == ".svg" else drawing_page(view))
    if path is not None:
        try:
            Path(path).write_text(drawn, encoding="utf-8")
        except OSError as error:
            message = f"cannot save the drawing as {path}: {error.strerror}"
            raise UsageError(message) from None
    return drawn


def view_of(source: str | Path | Iterable[BaseEvent] | StreamResult | RunView) -> RunView:
    """Fold what `draw` takes into a view with a timeline.

    Raises:
        UsageError: If there is no run in it.
    """
    if isinstance(source, RunView):
        view = source
    else:
        view = RunView(timeline=True)
        if isinstance(source, (str, Path)):
            events: Iterable[BaseEvent] = read_events(source)
        else:
            events = events_of(source) if isinstance(source, StreamResult) else source
        for event in events:
            if not isinstance(event, BaseEvent):
                message = f"draw takes a recording, events or a result, not {type(event).__name__}s"
                raise UsageError(message)
            view.apply(event)
            if isinstance(event, CompletedEvent) and event.run_id == view.run_id:
                break
    if isinstance(source, StreamResult) and view.timeline is not None:
        for attempt in view.timeline.attempts:  # of which a result knows nothing
            attempt.deltas.clear()
    if view.timeline is None or not view.run_id:
        where = source if isinstance(source, (str, Path)) else "the source"
        message = f"{where} holds no run; record one with sinks.JSONL or sinks.Collect"
        raise UsageError(message)
    return view
