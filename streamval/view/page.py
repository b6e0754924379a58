"""A drawing as a page of its own: one file, which fetches nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping

from streamval.view.assets import asset
from streamval.view.escaping import escaped
from streamval.view.labels import rejected_texts, seconds
from streamval.view.marbles import marbles
from streamval.view.marks import cut_times
from streamval.view.picture import run_picture
from streamval.view.run_view import RunView
from streamval.view.timeline import AttemptTimes

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; \
script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'">
<title>{title}</title><style>{style}</style></head>
<body><main><h1>{title}</h1>
{picture}
<h2>Where its time went</h2>
<p class="tools"><button value="in">zoom in</button> <button value="out">zoom out</button>
<button value="all">all of it</button></p>
<div class="plot" tabindex="0" role="group" aria-label="Marble diagram; the arrow keys go from chunk to chunk">{drawing}</div>
<div id="details" role="status">Point at a mark, or use the arrow keys in the diagram.</div>
<details><summary>All chunks as a table</summary>
<table class="chunks"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></details>
</main><script>{script}</script></body></html>
"""


def drawing_page(view: RunView) -> str:
    """Return the marble diagram of a run, its text, and a table of its chunks, as a page.

    The script finds the details of a mark in the table, so everything is there once, and a reader
    without a mouse, or without a screen, gets it too.

    Args:
        view: A run that was folded with ``timeline=True``.

    Returns:
        The page. Its content security policy lets nothing run but its own script.
    """
    shown = view.snapshot()
    script = asset("marbles.js")
    names = [row["name"] for row in shown["rows"]]
    columns = ["attempt", "chunk", "text", *names, "complete at", "released after"]
    attempts = view.timeline.attempts if view.timeline else []
    rejected = rejected_texts(shown)
    return _PAGE.format(
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        title=escaped(f"A run of {shown['model'] or 'a model'}", 120),
        style=asset("page.css"),
        picture=run_picture(shown),
        drawing=marbles(view, detail=True),
        heads="".join(f"<th>{escaped(column, 200)}</th>" for column in columns),
        rows="".join(
            row
            for times in attempts
            for row in _rows(times, len(names), rejected.get(times.number, {}))
        ),
        script=script,
    )


def _rows(times: AttemptTimes, lanes: int, rejected: Mapping[int, str]) -> Iterator[str]:
    """Yield a row of the table for each chunk of an attempt."""
    released = {one.chunk: one for one in times.released}
    verdicts: dict[int, list[str]] = {}
    for judged in times.judged:
        if 0 <= judged.lane < lanes:
            said: str = judged.verdict
            if judged.asked is not None:
                said += f" in {seconds(judged.answered - judged.asked)}"
            if judged.reason:
                said += f": {judged.reason}"
            verdicts.setdefault(judged.chunk, [""] * lanes)[judged.lane] = said
    for chunk, at in sorted(cut_times(times).items()):
        one = released.get(chunk)
        cells = [
            str(times.number),
            str(chunk),
            one.text if one else rejected.get(chunk, ""),
            *verdicts.get(chunk, [""] * lanes),
            seconds(at),
            seconds(one.at - at) if one else "never",
        ]
        inside = "".join(f"<td>{escaped(cell)}</td>" for cell in cells)
        yield f'<tr data-c="{times.number}-{chunk}">{inside}</tr>'
