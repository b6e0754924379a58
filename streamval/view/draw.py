"""`draw`: a run as a marble diagram, from a recording, a list of events, or a result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import Any

from streamval.backends.recording import read_events
from streamval.errors import UsageError
from streamval.events import (
    BaseEvent,
    ChunkEvent,
    CompletedEvent,
    QuickCheckEvent,
    ReasoningEvent,
    RetryEvent,
    StartedEvent,
    TokenEvent,
    ToolCallEvent,
)
from streamval.types.results import AttemptResult, PartialValidationResult, StreamResult
from streamval.view.marbles import marbles
from streamval.view.page import drawing_page
from streamval.view.picture import image
from streamval.view.run_view import RunView


class Drawing(str):
    """A drawing: its text is the SVG, or the page. Jupyter shows it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<Drawing of {len(self):,} characters>"

    def _repr_html_(self) -> str:
        if self.startswith("<svg"):
            return image(self, "Marble diagram of a run")
        return f'<iframe sandbox srcdoc="{escape(self)}" width="100%" height="600"></iframe>'


def draw(
    source: str | Path | Iterable[BaseEvent] | StreamResult | RunView,
    path: str | Path | None = None,
) -> Drawing:
    """Draw a run as a marble diagram: its time, its verdicts, its attempts.

    Time runs to the right. Each attempt has a row of deltas (with `emit_tokens=True`), one of chunks, one
    a lane, with a bar from when the lane was asked to its verdict (with `emit_verdicts=True`), and one of
    released chunks. A cross shows where the source was closed.

    Args:
        source: The path of a recording (`sinks.JSONL`), events (`sinks.Collect`), or a result, which
            knows the times of its attempts only. Of several runs in a recording, the first.
        path: Where to save it: ``.svg`` for a picture, ``.html`` for a page with zoom, in which hovering or
            the arrow keys show text, verdicts and reasons. Neither loads external resources.

    Returns:
        The drawing. In Jupyter it shows itself.

    Raises:
        UsageError: If `source` contains no run, or `path` has another suffix or cannot be written.

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
        raise UsageError(f"a drawing is saved as .svg or .html, not as {str(path)!r}")
    view = view_of(source)
    drawn = Drawing(marbles(view) if suffix == ".svg" else drawing_page(view))
    if path is not None:
        try:
            Path(path).write_text(drawn, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot save the drawing as {path}: {error.strerror}") from None
    return drawn


def view_of(source: str | Path | Iterable[BaseEvent] | StreamResult | RunView) -> RunView:
    """Fold what `draw` takes into a view with a timeline.

    Raises:
        UsageError: If it contains no run.
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
                raise UsageError(
                    f"draw takes a recording, events or a result, not {type(event).__name__}s"
                )
            view.apply(event)
            if isinstance(event, CompletedEvent) and event.run_id == view.run_id:
                break
    if isinstance(source, StreamResult) and view.timeline is not None:
        for attempt in view.timeline.attempts:  # a result has no times of deltas
            attempt.deltas.clear()
    if view.timeline is None or not view.run_id:
        where = source if isinstance(source, (str, Path)) else "the source"
        raise UsageError(f"{where} contains no run; record one with sinks.JSONL or sinks.Collect")
    return view


def events_of(result: StreamResult) -> Iterator[BaseEvent]:
    """Yield the events of a run as far as its result knows them: what an attempt kept is one chunk.

    The times are those at which attempts ended, in seconds from the start.

    Args:
        result: The result of a run.

    Yields:
        The events, in order.
    """
    names = _names(result)
    head: dict[str, Any] = {"run_id": "result", "attempt": 1, "timestamp": 0.0}
    yield StartedEvent(**head, model="", requirements=names, chunking="")
    stands, kept = 0, 0  # characters, and chunks
    final = result.text
    # A user's operators may have changed the delivered text: then it is not the model's.
    as_written = not result.attempts or result.attempts[-1].text.startswith(final)
    for attempt in result.attempts:
        head["timestamp"] += attempt.seconds
        text, is_last = attempt.text, attempt is result.attempts[-1]
        if is_last and not as_written:
            stands, text = 0, final
        end = stands
        yield from _reasoning(head, attempt, result if is_last else None)
        if is_last:
            end = len(final)
        elif as_written:
            end = max(attempt.kept, stands)
        if end > stands:
            piece = text[stands:end]
            yield ChunkEvent(
                **head, text=piece, chunk_index=kept, start=stands, end=end, separator=""
            )
            stands, kept = end, kept + 1
        if text[end:]:
            yield TokenEvent(**head, text=text[end:])
        yield from _calls_and_failures(head, attempt, result, kept)
        if not is_last:
            continues = attempt.kept > 0
            if not continues:
                stands = kept = 0
            head["attempt"] += 1
            yield RetryEvent(
                **head,
                reason="; ".join(map(str, attempt.failures)),
                failures=attempt.failures,
                mode="continue" if continues else "restart",
                keep_chunks=kept,
            )
    yield CompletedEvent(
        **head,
        success=result.success,
        full_text=result.text,
        attempts_used=len(result.attempts),
        usage=result.usage,
    )


def _reasoning(
    head: dict[str, Any], attempt: AttemptResult, result: StreamResult | None
) -> Iterator[BaseEvent]:
    """Yield the reasoning of an attempt: as delivered, if it is the last one of a result; else as written."""
    stands = "" if result is None else result.reasoning
    if stands:
        yield ReasoningEvent(
            **head, text=stands, chunk_index=0, start=0, end=len(stands), separator=""
        )
    if rest := attempt.reasoning.removeprefix(stands).strip():
        yield TokenEvent(**head, text=rest, channel="reasoning")


def _calls_and_failures(
    head: dict[str, Any], attempt: AttemptResult, result: StreamResult, kept: int
) -> Iterator[BaseEvent]:
    """Yield the calls of the last attempt, and the check that failed an attempt."""
    for call in result.tool_calls if attempt is result.attempts[-1] else ():
        yield ToolCallEvent(**head, **{name: getattr(call, name) for name in call.__slots__})
    if attempt.failures:
        yield _failing(head, attempt, _names(result), kept)


def _names(result: StreamResult) -> tuple[str, ...]:
    """Return the names of failed requirements by lane; only their number is known of the others."""
    failures = [failure for attempt in result.attempts for failure in attempt.failures]
    named = {failure.lane: failure.requirement for failure in failures if failure.lane is not None}
    count = max([*(lane + 1 for lane in named), len(result.validations)], default=0)
    return tuple(named.get(lane, f"requirement {lane + 1}") for lane in range(count))


def _failing(
    head: dict[str, Any], attempt: AttemptResult, names: tuple[str, ...], chunk: int
) -> QuickCheckEvent:
    results: list[PartialValidationResult | None] = [None] * len(names)
    for failure in attempt.failures:
        if failure.lane is not None and failure.lane < len(results):
            results[failure.lane] = PartialValidationResult("fail", reason=failure.reason)
    return QuickCheckEvent(
        **head,
        chunk_index=chunk,
        passed=False,
        verdict="fail",
        results=tuple(results),
        channel=attempt.failures[0].channel,
    )
