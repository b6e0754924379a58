"""The HTML of `_repr_html_` for each type."""

from __future__ import annotations

from functools import singledispatch

from streamval.chunkers.chunking import describe_chunking
from streamval.events import BaseEvent
from streamval.pipeline.pipeline import Pipeline
from streamval.pipeline.repair import Repair
from streamval.pipeline.run import Run
from streamval.types.chunks import Chunk
from streamval.types.results import (
    AttemptResult,
    PartialValidationResult,
    StreamResult,
    ValidationResult,
)
from streamval.validation.verdicts import Check, Verdict
from streamval.view.diagram import pipeline_diagram
from streamval.view.draw import view_of
from streamval.view.escaping import escaped
from streamval.view.picture import MARKS, fields_picture, framed, image, run_picture

_KINDS = {"pass": "good", "fail": "bad", "unknown": "warning"}


@singledispatch
def to_html(thing: object) -> str:
    """Return a picture as HTML, without scripts.

    Raises:
        TypeError: If its type has no picture.
    """
    raise TypeError(f"{type(thing).__name__} has no picture")


@to_html.register
def _of_pipeline(pipeline: Pipeline) -> str:
    """Return the way from the deltas to the subscribers, with the pipeline's own lanes."""
    model, chunking = pipeline.backend.model, describe_chunking(pipeline.chunking)
    lanes = [requirement.name for requirement in pipeline.requirements]
    drawn = pipeline_diagram(model, chunking, lanes, _repair(pipeline.retry))
    judged = ", ".join(lanes) or "no requirement"
    return framed(image(drawn, f"{model}, cut by {chunking}, judged by {judged}"))


def _repair(retry: Repair | None) -> str | None:
    if retry is None:
        return None
    how = retry.mode or "continue or restart"
    return f"{how}, up to {retry.loop_budget} attempts in all"


@to_html.register
def _of_run(run: Run) -> str:
    text = escaped(run.text) if run.audio is None else f"♪ {len(run.audio):,} bytes"
    names = ", ".join(requirement.name for requirement in run.requirements) or "no requirement"
    return framed(
        f'<div class="head">a run of {escaped(run.model, 200)}, judged by {escaped(names, 500)}</div>'
        f'<div class="text">{text}</div><div>{escaped(run.state)}</div>'
    )


@to_html.register
def _of_result(result: StreamResult) -> str:
    """Return the text with rejected text struck out, the failures and the outcome."""
    shown = view_of(result).snapshot()
    # A result has only the names of requirements that failed an attempt.
    shown["rows"] = [row for row in shown["rows"] if row["state"] == "fail"]
    shown["finish_reason"] = result.finish_reason
    more = ""
    if result.audio is not None:
        more += f"<div>♪ {len(result.audio):,} bytes of sound</div>"
    if result.parsed is not None:
        more += f"<div>parsed: <code>{escaped(_repr(result.parsed), 2000)}</code></div>"
    return run_picture(shown, more)


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # of a user's own class: the picture is not the place to fail
        return f"a {type(value).__name__}"


@to_html.register
def _of_attempt(attempt: AttemptResult) -> str:
    said = "".join(f'<div class="bad">✗ {escaped(str(one))}</div>' for one in attempt.failures)
    usage = f"{attempt.usage.completion_tokens} tokens in {attempt.seconds:.2f} s"
    why = f" · {escaped(attempt.finish_reason, 100)}" if attempt.finish_reason else ""
    return framed(f'<div class="text">{escaped(attempt.text)}</div>{said}<div>{usage}{why}</div>')


@to_html.register
def _of_event(event: BaseEvent) -> str:
    fields = event.model_dump(exclude={"run_id", "type", "timestamp"}, exclude_none=True)
    kind = {"error": "bad", "retry": "warning"}.get(event.type, "plain")  # type: ignore[attr-defined]
    return fields_picture(type(event).__name__, fields, kind)


@to_html.register
def _of_chunk(chunk: Chunk) -> str:
    return framed(_chunk_line(chunk))


@to_html.register
def _of_check(check: Check) -> str:
    """Return a chunk with its verdicts."""
    lines = [_verdict_line(f"lane {lane}", result) for lane, result in enumerate(check.results)]
    head = "the whole output" if check.chunk is None else _chunk_line(check.chunk)
    return framed(f"{head}<table>{''.join(lines)}</table>")


@to_html.register
def _of_verdict(verdict: Verdict) -> str:
    line = _verdict_line(f"lane {verdict.lane}", verdict.result)
    return framed(f"{_chunk_line(verdict.chunk)}<table>{line}</table>")


def _chunk_line(chunk: Chunk) -> str:
    where = f"chunk {chunk.index}, {chunk.start} to {chunk.end}"
    said = chunk.text if isinstance(chunk.text, str) else f"♪ {len(chunk.text):,} bytes"
    return f'<div class="head">{where}</div><div class="text">{escaped(said)}</div>'


def _verdict_line(lane: str, result: PartialValidationResult | ValidationResult | None) -> str:
    if result is None:
        return f"<tr><td>·</td><td>{lane}</td><td>cut off</td></tr>"
    success = getattr(result, "success", "pass" if result else "fail")
    said = escaped(f"{success}{f': {result.reason}' if result.reason else ''}", 2000)
    return f'<tr><td class="{_KINDS[success]}">{MARKS[success]}</td><td>{lane}</td><td>{said}</td></tr>'
