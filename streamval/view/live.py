"""`LiveRun`: a run in a notebook, while it happens."""

from __future__ import annotations

import asyncio
from typing import Any

from streamval.errors import UsageError
from streamval.events import CompletedEvent
from streamval.view.assets import asset
from streamval.view.labels import page_snapshot
from streamval.view.marbles import marbles
from streamval.view.patch import patch
from streamval.view.picture import image, run_picture
from streamval.view.run_view import RunView

try:
    import traitlets
    from anywidget import AnyWidget
except ImportError:
    raise UsageError('run.live() needs the extra: pip install "streamval-llm[notebook]"') from None

from streamval.events import BaseEvent
from streamval.pipeline.run import Run

UPDATES_A_SECOND = 10

WHOLE = 32_000
"""Characters of text up to which each update is the whole snapshot, as the widget's state. A message
that comes while the page still loads the widget is lost, a state is not. Above, patches are sent."""


class LiveRun(AnyWidget):
    """Shows a run in a notebook. Made by `Run.live`.

    When the run is over, a picture without scripts takes its place, which stays in the saved notebook.

    Args:
        run: A run that has not been started.
    """

    _esm = asset("view.js") + asset("widget.js")
    _css = asset("view.css")
    snapshot = traitlets.Dict().tag(sync=True)
    number = traitlets.Int().tag(sync=True)

    def __init__(self, run: Run) -> None:
        self._view = RunView(timeline=True, prompt=run.prompt)
        self._number = 0
        self._sent = page_snapshot(self._view)
        self._due: asyncio.TimerHandle | None = None
        self._handles: list[Any] = []
        self._over = False
        super().__init__(snapshot=dict(self._sent))
        self.on_msg(self._on_message)
        run.subscribe(self._on_event)

    def picture(self) -> str:
        """Return the run as it stands, as HTML without scripts."""
        times = "Shown when the run is over."
        if self._over:
            times = image(marbles(self._view), "Marble diagram of the run")
        details = f"<details><summary>Where its time went</summary>{times}</details>"
        return run_picture(self._view.snapshot(), details)

    def _on_event(self, event: BaseEvent) -> None:
        self._view.apply(event)
        if isinstance(event, CompletedEvent):
            self._finish()
        elif self._due is None:
            loop = asyncio.get_running_loop()
            self._due = loop.call_later(1 / UPDATES_A_SECOND, self._update)

    def _update(self) -> None:
        """Send the changes."""
        self._due = None
        before, now = self._sent, page_snapshot(self._view)
        self._sent = now
        self._number += 1
        if self._view.size + len(now["pending"]) <= WHOLE:
            self._send_whole()
        else:
            self.send({"number": self._number, "patch": patch(before, now)})

    def _send_whole(self) -> None:
        with self.hold_sync():
            self.snapshot = dict(self._sent)
            self.number = self._number

    def _on_message(self, _: object, content: object, __: object) -> None:
        if isinstance(content, dict) and "missing" in content:
            self._number += 1
            self._send_whole()

    def _finish(self) -> None:
        """Send the last state, and replace the widget by the picture, as the run is over."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        self._over = True
        self._sent = page_snapshot(self._view)
        self._number += 1
        self._send_whole()
        if self._handles:
            picture = {"text/html": self.picture(), "text/plain": repr(self)}
            for handle in self._handles:
                handle.update(picture, raw=True)
            self._handles = []
            self.close()

    def _ipython_display_(self, **_: object) -> None:
        from IPython import display as ipython  # there wherever this is called

        display: Any = ipython.display
        if self._over:
            display({"text/html": self.picture(), "text/plain": repr(self)}, raw=True)
            return
        bundle = self._repr_mimebundle_()
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        self._handles.append(display(data, metadata=metadata, raw=True, display_id=True))

    def __repr__(self) -> str:
        shown = self._view.snapshot()
        return f"<LiveRun of {shown['model']!r}: {shown['state']}>"


def live_run(run: Run) -> LiveRun:
    """Return the widget for a run; see `Run.live`."""
    return LiveRun(run)
