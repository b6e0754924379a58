"""Pictures of a run, a result, a pipeline, an event, for a notebook: HTML without scripts.

A notebook that is not trusted, such as one from a clone, loses its styles and inline SVG. So plain elements
carry the meaning (`del`, `table`, `strong`), and drawings are images. Colours suit a light and a dark page.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from itertools import groupby

from streamval.view.assets import asset
from streamval.view.escaping import escaped
from streamval.view.labels import called, outcome, seconds, taken_back, thinking, what_became_of
from streamval.view.run_view import RowView, Segment, Snapshot

PROMPT = 2000
"""Characters of a prompt that are shown."""

CALL = 2000
"""Characters of a call of a tool that are shown."""

MARKS = {"pass": "✓", "fail": "✗", "unknown": "·", "waiting": "·"}
_KINDS = {"pass": "good", "fail": "bad"}


def run_picture(shown: Snapshot, more: str = "") -> str:
    """Return a run: its text with rejected text struck out, its requirements, attempts and outcome.

    Args:
        shown: The run.
        more: HTML below it, in the same frame.
    """
    parts = [_head(shown)]
    if shown["prompt"]:
        parts.append(f'<div class="prompt">{escaped(shown["prompt"], PROMPT)}</div>')
    parts.append(reasoning_html(shown))
    parts.append(f'<div class="text">{text_html(shown)}</div>')
    if calls := [_call(words.text, words.kind) for words in called(shown)]:
        parts.append(_table(calls))
    if shown["rows"]:
        parts.append(_table(_row(row) for row in shown["rows"]))
    parts.append(_attempts(shown))
    said = "".join(f'<span class="{w.kind}">{escaped(w.text)}</span>' for w in outcome(shown))
    if shown["error"] is not None:
        said += f'<div class="bad">{escaped(shown["error"])}</div>'
    parts.append(f"<div>{said}</div>{more}")
    return framed("".join(parts))


def framed(inside: str) -> str:
    """Return a picture with the style that it needs."""
    return f'<div class="sv-run"><style>{asset("view.css")}</style>{inside}</div>'


def image(svg: str, about: str) -> str:
    """Return an SVG as an image, as wide as its place and as high as the SVG says.

    Args:
        svg: The SVG. It is shown as it would be on a page of its own: without scripts or fonts of this page.
        about: What it shows, for readers without a screen.
    """
    data = base64.b64encode(svg.encode()).decode()
    return f'<img src="data:image/svg+xml;base64,{data}" alt="{escaped(about, 500)}" width="100%">'


def text_html(shown: Snapshot) -> str:
    """Return the text that stands, with rejected text struck out and pending text at the end."""
    parts = []
    pairs = zip(shown["text"], taken_back(shown), strict=True)
    for gone, together in groupby(pairs, lambda pair: pair[1]):
        text = "".join(_of_segment(segment) for segment, _ in together)
        parts.append(f"<del>{text}</del>" if gone else text)
    if shown["pending"]:
        parts.append(f'<span class="pending">{escaped(shown["pending"])}</span>')
    return "".join(parts)


def reasoning_html(shown: Snapshot) -> str:
    """Return the reasoning, folded; empty if there is none."""
    thought = shown["reasoning"]
    said = escaped(thought["text"])
    if thought["rejected"]:
        said += f"<del>{escaped(thought['rejected'])}</del>"
    if thought["pending"]:
        said += f'<span class="pending">{escaped(thought["pending"])}</span>'
    if not said:
        return ""
    return f'<details class="reasoning"><summary>{thinking(shown)}</summary>{said}</details>'


def _call(text: str, kind: str) -> str:
    said = escaped(text, CALL)
    said = f"<del>{said}</del>" if kind == "bad" else said
    return f'<tr><td class="{kind}">→</td><td><code>{said}</code></td></tr>'


def _of_segment(segment: Segment) -> str:
    if "bytes" in segment:
        return f"♪ {segment['bytes']:,} bytes "
    return escaped(segment["text"])


def _head(shown: Snapshot) -> str:
    said = [shown["model"], f"{shown['chunking']} by {shown['chunking']}"]
    if shown["stage"]:
        said.append(f"stage {shown['stage']}")
    if not shown["model"]:
        return ""
    return f'<div class="head">{" · ".join(escaped(part, 200) for part in said)}</div>'


def _row(row: RowView) -> str:
    took = f", {seconds(row['seconds'])}" if row["seconds"] else ""
    judged = f"{row['judged']} judged{took}" if row["judged"] else ""
    said = escaped(row["reason"]) if row["state"] == "fail" else judged
    kind = _KINDS.get(row["state"], "plain")
    return (
        f'<tr><td class="{kind}" title="{row["state"]}">{MARKS[row["state"]]}</td>'
        f'<td>{escaped(row["name"])}</td><td class="{"bad" if kind == "bad" else "plain"}">{said}</td></tr>'
    )


def _attempts(shown: Snapshot) -> str:
    rows = [
        f'<tr><td class="warning">↻</td><td>attempt {attempt["number"]} rejected</td>'
        f'<td class="bad">{escaped(attempt["reason"])}</td>'
        f'<td class="warning">{escaped(what_became_of(attempt))}</td></tr>'
        for attempt in shown["attempts"][:-1]
    ]
    return _table(rows) if rows else ""


def _table(rows: Iterable[str]) -> str:
    return f"<table>{''.join(rows)}</table>"


def fields_picture(title: str, fields: Mapping[str, object], kind: str = "plain") -> str:
    """Return an object with few fields, such as an event, as its name and a row for each field."""
    rows = (
        f"<tr><th>{escaped(name)}</th><td>{escaped(str(value), 2000)}</td></tr>"
        for name, value in fields.items()
    )
    return framed(f'<strong class="{kind}">{escaped(title)}</strong>{_table(rows)}')
