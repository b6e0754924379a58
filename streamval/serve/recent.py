"""The gateway's page: the last runs, as they happen."""

from __future__ import annotations

import base64
from collections import OrderedDict

from starlette.responses import Response

from streamval.pipeline.run import Run
from streamval.view.escaping import escaped
from streamval.view.labels import STATES, seconds
from streamval.view.watch import HEADERS, Broadcast, not_found

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="5">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>streamval: runs</title><link rel="stylesheet" href="/runs/page.css"><link rel="icon" href="data:,">
</head><body><main><h1>The last runs</h1>
<table class="chunks"><thead><tr><th>run</th><th>model</th><th>state</th><th>attempts</th><th>seconds</th>
<th>text</th></tr></thead><tbody>{rows}</tbody></table></main></body></html>
"""


class Recent:
    """The last runs, for authorised viewers. Their text is kept until newer runs come.

    Args:
        count: How many to keep.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._shown: OrderedDict[str, Broadcast] = OrderedDict()

    def add(self, run: Run) -> None:
        """Show a run, which has not been started yet."""
        shown = self._shown[run.run_id] = Broadcast()
        run.subscribe(shown)
        while len(self._shown) > self._count:
            _, oldest = self._shown.popitem(last=False)
            oldest.close()

    def close(self) -> None:
        """End what open tabs are sent."""
        for shown in self._shown.values():
            shown.close()

    def page(self) -> Response:
        """Return the list."""
        rows = "".join(_row(run_id, shown) for run_id, shown in reversed(self._shown.items()))
        return Response(_PAGE.format(rows=rows), media_type="text/html", headers=HEADERS)

    async def answer(self, run_id: str, name: str) -> Response:
        """Return a part of the page of one run."""
        shown = self._shown.get(run_id)
        return (shown and await shown.answer(name)) or not_found()


def _row(run_id: str, shown: Broadcast) -> str:
    now = shown.view.snapshot()
    cells = [
        now["model"],
        STATES[now["state"]],
        str(len(now["attempts"])),
        seconds(now["seconds"]),
        shown.view.text[:120],
    ]
    content = "".join(f"<td>{escaped(cell)}</td>" for cell in cells)
    return f'<tr><td><a href="/runs/{run_id}/">{run_id[:8]}</a></td>{content}</tr>'


def key_in(authorization: str | None) -> str | None:
    """Return the key in a header: behind ``Bearer``, or as the password of a browser (``Basic``).

    Example:
        >>> key_in("Bearer abc"), key_in("Basic " + base64.b64encode(b"me:abc").decode())
        ('abc', 'abc')
    """
    scheme, _, given = (authorization or "").partition(" ")
    if scheme.lower() == "bearer":
        return given.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(given, validate=True).decode().partition(":")[2]
        except ValueError:
            return None
    return None
