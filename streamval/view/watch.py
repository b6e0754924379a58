"""`Watch`: a run on a page of its own, on loopback, while it happens."""

from __future__ import annotations

import asyncio
import secrets
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Self

from streamval.errors import UsageError
from streamval.events import BaseEvent
from streamval.view.assets import asset
from streamval.view.labels import page_snapshot
from streamval.view.marbles import STYLE, THEMES, marbles
from streamval.view.patch import patch
from streamval.view.run_view import RunView
from streamval.wire.sse import MEDIA_TYPE, PING, frame

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response, StreamingResponse
    from starlette.routing import Route
except ImportError:
    raise UsageError('--watch needs the extra: pip install "streamval-llm[serve]"') from None

UPDATES_A_SECOND = 10
HEARTBEAT = 15.0
"""Seconds of silence after which a comment is sent, to detect closed tabs."""

TABS = 64
"""How many tabs may be open at once."""

CLOSING = 2
"""Seconds that the server waits for unfinished answers."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",  # the token is in the address
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Broadcast:
    """A subscriber that shows one run on up to `TABS` pages, which may connect at any time.

    Args:
        prompt: What was asked.

    Attributes:
        view: The run, folded.
    """

    def __init__(self, prompt: str = "") -> None:
        self.view = RunView(timeline=True, prompt=prompt)
        self._tabs: set[asyncio.Event] = set()
        self._closing = False
        self._events = 0
        self._drawn = (-1, "")  # after how many events, and the drawing
        self._drawing = asyncio.Lock()

    def __call__(self, event: BaseEvent) -> None:
        """Apply an event, and wake the tabs."""
        self._events += 1
        self.view.apply(event)
        for tab in self._tabs:
            tab.set()

    @property
    def tabs(self) -> int:
        """How many tabs are open."""
        return len(self._tabs)

    def close(self) -> None:
        """End the streams of the tabs."""
        self._closing = True
        for tab in self._tabs:
            tab.set()

    async def frames(self) -> AsyncIterator[str]:
        """Yield a snapshot, then changes: as fast as the tab reads, at most ten times a second."""
        news = asyncio.Event()
        self._tabs.add(news)
        try:
            if len(self._tabs) > TABS:
                return
            sent = page_snapshot(self.view)
            yield frame(sent, "snapshot")
            closing = False
            while not closing:
                try:
                    await asyncio.wait_for(news.wait(), HEARTBEAT)
                except TimeoutError:
                    yield PING
                    continue
                news.clear()
                closing = self._closing  # changes until then are still sent
                now = page_snapshot(self.view)
                if now["run_id"] != sent["run_id"]:
                    yield frame(now, "snapshot")
                elif change := patch(sent, now):
                    yield frame(change, "patch")
                sent = now
                if not closing:
                    await asyncio.sleep(1 / UPDATES_A_SECOND)
        finally:
            self._tabs.discard(news)

    async def drawing(self) -> str:
        """Return the current drawing, made once for all tabs, on a thread, so that it does not delay the run."""
        async with self._drawing:
            if self._drawn[0] != self._events:
                events = self._events
                # Without its style, as an inline one is against the policy. The thread sees lists grow.
                made = await asyncio.to_thread(marbles, self.view, styled=False)
                self._drawn = (events, made)
        return self._drawn[1]

    async def answer(self, name: str) -> Response | None:
        """Return the part of a page with this name; `None` for unknown names."""
        if name == "marbles.svg":
            drawn = await self.drawing()
            return Response(drawn, media_type="image/svg+xml", headers=HEADERS)
        if name == "events":
            if self.tabs >= TABS:
                return PlainTextResponse("too many tabs are open", 503, headers=HEADERS)
            return StreamingResponse(self.frames(), media_type=MEDIA_TYPE, headers=HEADERS)
        return fixed_part(name)


def fixed_part(name: str) -> Response | None:
    """Return a part of the page that does not depend on the run."""
    style = asset("page.css") + STYLE + THEMES
    parts: dict[str, tuple[str, Callable[[], str]]] = {
        "": ("text/html", lambda: asset("watch.html")),
        "view.js": ("text/javascript", lambda: asset("view.js")),
        "watch.js": ("text/javascript", lambda: asset("watch.js")),
        "view.css": ("text/css", lambda: asset("view.css")),
        "page.css": ("text/css", lambda: style),
    }
    if name not in parts:
        return None
    kind, content = parts[name]
    return Response(content(), media_type=kind, headers=HEADERS)


def not_found() -> Response:
    """Return the answer to anything else."""
    return PlainTextResponse("not found", 404, headers=HEADERS)


@contextmanager
def _signal_handlers_kept() -> Iterator[None]:
    """Restore the program's signal handlers, which uvicorn replaces as it starts and as it ends."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                signal.signal(number, handler)


class Watch:
    """A subscriber that shows a run on a page, which several tabs may open, at any time.

    An async context manager: the server runs inside of it, on 127.0.0.1 and a free port. The address
    contains a token, without which the answer is 404. Subscribe it on the event loop that
    entered it. Needs ``pip install "streamval-llm[serve]"``.

    Args:
        prompt: What was asked, to be shown above the text.

    Attributes:
        url: The address of the page, once the server runs.

    Example:
        >>> import httpx
        >>> from streamval import Pipeline, ScriptedBackend
        >>> async def main():
        ...     async with Watch() as watch, httpx.AsyncClient(trust_env=False) as client:
        ...         run = Pipeline(ScriptedBackend("All is well.")).start("How is it?")
        ...         run.subscribe(watch)
        ...         await run
        ...         page = await client.get(watch.url)
        ...         print(page.status_code, page.headers["content-type"])
        >>> asyncio.run(main())
        200 text/html; charset=utf-8
    """

    url: str

    def __init__(self, prompt: str = "") -> None:
        self._shown = Broadcast(prompt)
        self._token = secrets.token_urlsafe(18)

    def __call__(self, event: BaseEvent) -> None:
        """Show an event."""
        self._shown(event)

    @property
    def tabs(self) -> int:
        """How many tabs are open."""
        return self._shown.tabs

    async def __aenter__(self) -> Self:
        listening = socket.create_server(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/{self._token}/"
        config = uvicorn.Config(
            self._app(),
            log_level="error",
            access_log=False,  # it would write the token
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=CLOSING,
        )
        self._server = uvicorn.Server(config)
        self._serving = asyncio.ensure_future(self._server.serve([listening]))
        with _signal_handlers_kept():
            while not self._server.started:
                if self._serving.done():
                    await self._serving
                await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._shown.close()
        self._server.should_exit = True
        with _signal_handlers_kept():
            await self._serving

    def _app(self) -> Starlette:
        hosts = Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
        routes = [Route("/{token}/{name:path}", self._answer)]
        app = Starlette(routes=routes, middleware=[hosts])
        app.router.redirect_slashes = False  # a redirect would have no policy
        return app

    async def _answer(self, request: Request) -> Response:
        """Answer a request with the right token."""
        given = request.path_params["token"].encode()
        if not secrets.compare_digest(given, self._token.encode()):
            return not_found()
        return await self._shown.answer(request.path_params["name"]) or not_found()
