"""The gateway's page: the last runs, as they happen."""

from __future__ import annotations

import base64
from collections import OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime
from time import time
from typing import Any, NamedTuple

from starlette.responses import Response

from streamval.events import FullValidationEvent, QuickCheckEvent
from streamval.pipeline.run import Run
from streamval.view.escaping import escaped
from streamval.view.labels import STATES, seconds
from streamval.view.watch import HEADERS, Broadcast, not_found

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="5">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>streamval: runs</title><link rel="stylesheet" href="/runs/page.css"><link rel="icon" href="data:,">
</head><body><main><h1>The last runs</h1>
<table class="chunks cards"><thead><tr>{titles}</tr></thead><tbody>{rows}</tbody></table></main></body></html>
"""

_TITLES = (
    "run",
    "time (UTC)",
    "model",
    "prompt",
    "state",
    "rules not met",
    "attempts",
    "seconds",
    "text",
)

_COLOURS = {"valid": "good", "invalid": "bad", "error": "bad", "cut short": "warning"}

SHOWN = 120
"""Characters of a prompt and of a text in the list."""


class _Shown(NamedTuple):
    """A run of the list."""

    view: Broadcast
    model: str
    prompt: str
    began: float
    rules: dict[str, None]  # that an attempt did not meet, in their order


class Recent:
    """The last runs, for authorised viewers. Their text is kept until newer runs come.

    Args:
        count: How many to keep.
        prompts: Whether the list shows the last message of each request.
    """

    def __init__(self, count: int, *, prompts: bool = False) -> None:
        self._count = count
        self._prompts = prompts
        self._shown: OrderedDict[str, _Shown] = OrderedDict()

    def add(self, run: Run, model: str, prompt: str) -> None:
        """Show a run, which has not been started yet, of a model by the client's name for it."""
        names = [requirement.name for requirement in run.requirements]
        view, rules = Broadcast(), dict[str, None]()
        shown = _Shown(view, model, prompt[:SHOWN] if self._prompts else "", time(), rules)
        self._shown[run.run_id] = shown

        def note(event: Any) -> None:
            if isinstance(event, (QuickCheckEvent, FullValidationEvent)) and not event.passed:
                failed = zip(names, event.results, strict=False)
                rules.update((name, None) for name, result in failed if _has_failed(result))

        run.subscribe(view)
        run.subscribe(note)
        while len(self._shown) > self._count:
            _, oldest = self._shown.popitem(last=False)
            oldest.view.close()

    def close(self) -> None:
        """End what open tabs are sent."""
        for shown in self._shown.values():
            shown.view.close()

    def page(self) -> Response:
        """Return the list."""
        titles = [one for one in _TITLES if self._prompts or one != "prompt"]
        shown = reversed(self._shown.items())
        page = _PAGE.format(
            titles="".join(f"<th>{title}</th>" for title in titles),
            rows="".join(_row(run_id, one, titles) for run_id, one in shown),
        )
        return Response(page, media_type="text/html", headers=HEADERS)

    async def answer(self, run_id: str, name: str) -> Response:
        """Return a part of the page of one run."""
        shown = self._shown.get(run_id)
        return (shown and await shown.view.answer(name)) or not_found()


def _has_failed(result: Any) -> bool:
    return getattr(result, "success", None) == "fail" or getattr(result, "passed", True) is False


def _row(run_id: str, shown: _Shown, titles: Sequence[str]) -> str:
    view = shown.view.view
    now = view.snapshot()
    cells = {
        "run": f'<a href="/runs/{run_id}/">{run_id[:8]}</a>',
        "time (UTC)": datetime.fromtimestamp(shown.began, UTC).strftime("%H:%M:%S"),
        "model": escaped(shown.model[:SHOWN]),
        "prompt": escaped(shown.prompt),
        "state": f'<b class="{_COLOURS.get(now["state"], "")}">{STATES[now["state"]]}</b>',
        "rules not met": escaped(", ".join(shown.rules)),
        "attempts": str(len(now["attempts"])),
        "seconds": seconds(now["seconds"]),
        "text": escaped(view.text[:SHOWN]),
    }
    content = "".join(f'<td data-title="{title}">{cells[title]}</td>' for title in titles)
    return f"<tr>{content}</tr>"


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
