"""`Watch`: a run on a page of its own, on loopback, while it happens."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

from streamval.errors import UsageError
from streamval.view.assets import asset
from streamval.view.marbles import STYLE, THEMES, marbles
from streamval.view.patch import patch
from streamval.view.run_view import RunView

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.responses import PlainTextResponse, Response, StreamingResponse
    from starlette.routing import Route
except ImportError:
    message = '--watch needs the extra: pip install "streamval-llm[serve]"'
    raise UsageError(message) from None

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from types import TracebackType
    from typing import Self

    from starlette.requests import Request

    from streamval.events import BaseEvent

UPDATES_A_SECOND = 10
HEARTBEAT = 15.0
"""Seconds of silence after which a comment is sent, which finds out whether a tab is still there."""

TABS = 64
"""How many tabs may be open at once."""

CLOSING = 2
"""Seconds that the server waits for answers that it has begun."""

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
    """A subscriber that shows one run to any number of pages, whenever they come.

    Attributes:
        view: The run, folded.
    """

    def __init__(self) -> None:
        self.view = RunView(timeline=True)
        self._tabs: set[asyncio.Event] = set()
        self._closing = False
        self._events = 0
        self._drawn = (-1, "")  # after how many events, and the drawing
        self._drawing = asyncio.Lock()

    def __call__(self, event: BaseEvent) -> None:
        """Take in an event, and wake the tabs."""
        self._events += 1
        self.view.apply(event)
        for tab in self._tabs:
            tab.set()

    @property
    def tabs(self) -> int:
        """How many tabs are open."""
        return len(self._tabs)

    def close(self) -> None:
        """End what the tabs are sent."""
        self._closing = True
        for tab in self._tabs:
            tab.set()

    async def frames(self) -> AsyncIterator[str]:
        """A snapshot, then what is new: as often as the tab can take it, ten times a second at most."""
        news = asyncio.Event()
        self._tabs.add(news)
        try:
            if len(self._tabs) > TABS:
                return
            sent = self.view.snapshot()
            yield _frame("snapshot", sent)
            closing = False
            while not closing:
                try:
                    await asyncio.wait_for(news.wait(), HEARTBEAT)
                except TimeoutError:
                    yield ": still there\n\n"
                    continue
                news.clear()
                closing = self._closing  # what is new until then is still sent
                now = self.view.snapshot()
                if now["run_id"] != sent["run_id"]:
                    yield _frame("snapshot", now)
                elif change := patch(sent, now):
                    yield _frame("patch", change)
                sent = now
                if not closing:
                    await asyncio.sleep(1 / UPDATES_A_SECOND)
        finally:
            self._tabs.discard(news)

    async def drawing(self) -> str:
        """The drawing as it stands, made once for all tabs, and on a thread: it never holds the run back."""
        async with self._drawing:
            if self._drawn[0] != self._events:
                events = self._events
                # Without its style, as an inline one is against the policy. The thread sees lists grow.
                made = await asyncio.to_thread(marbles, self.view, styled=False)
                self._drawn = (events, made)
        return self._drawn[1]

    async def answer(self, name: str) -> Response | None:
        """What a page asks for by this name, beside the fixed parts; `None` for anything else."""
        if name == "marbles.svg":
            drawn = await self.drawing()
            return Response(drawn, media_type="image/svg+xml", headers=HEADERS)
        if name == "events":
            if self.tabs >= TABS:
                return PlainTextResponse("too many tabs are open", 503, headers=HEADERS)
            return StreamingResponse(self.frames(), media_type="text/event-stream", headers=HEADERS)
        return fixed_part(name)


def fixed_part(name: str) -> Response | None:
    """A part of the page that is the same for every run."""
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
    """The answer to anything else."""
    return PlainTextResponse("not found", 404, headers=HEADERS)


class Watch:
    """A subscriber that shows a run on a page, which several tabs may open, at any time.

    An async context manager: the server runs inside of it, on 127.0.0.1 and a free port. The address
    has a token in it, and whoever does not know it gets nothing. Subscribe it on the event loop that
    entered it. Needs ``pip install "streamval-llm[serve]"``.

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

    def __init__(self) -> None:
        self._shown = Broadcast()
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
        self._server = _Server(config)
        self._serving = asyncio.ensure_future(self._server.serve([listening]))
        while not self._server.started:
            if self._serving.done():
                await self._serving
            await asyncio.sleep(0)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._shown.close()
        self._server.should_exit = True
        await self._serving

    def _app(self) -> Starlette:
        hosts = Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
        routes = [Route("/{token}/{name:path}", self._answer)]
        app = Starlette(routes=routes, middleware=[hosts])
        app.router.redirect_slashes = False  # a redirect would have no policy
        return app

    async def _answer(self, request: Request) -> Response:
        """What the token opens."""
        given = request.path_params["token"].encode()
        if not secrets.compare_digest(given, self._token.encode()):
            return not_found()
        return await self._shown.answer(request.path_params["name"]) or not_found()


def _frame(kind: str, content: object) -> str:
    return f"event: {kind}\ndata: {json.dumps(content)}\n\n"


class _Server(uvicorn.Server):
    """A server that leaves signals to the program that it is a part of."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield
