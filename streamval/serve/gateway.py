"""The gateway: an ASGI application with the protocols of OpenAI and Anthropic that sends only judged text.

What a client may rely on:

- Only chunks that passed are sent. A client sees a repair that continues only as a pause.
- The status line waits for the first good chunk, so an early failure of the upstream gets a real status.
- An answer that failed for good ends with the finish reason ``content_filter``, or with an error. An upstream
  that broke off ends it with an error frame, and without ``[DONE]``.
- When the client goes, the upstream is closed at once.
- Reasoning is not sent, unless the file says ``reasoning: deliver``: then it is judged by the rules that listen to it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from streamval.errors import RequestError
from streamval.serve.completions import Completions, key_of
from streamval.serve.configuration import Configuration
from streamval.serve.service import Service
from streamval.view.watch import fixed_part, not_found
from streamval.wire.errors import error_object


class Gateway:
    """Serves the models of a configuration.

    Args:
        configuration: What to serve; see `read_configuration`.
        shared: Whether several processes serve it, and share their metrics.

    Attributes:
        app: The ASGI application.
        limiter: Limits running and waiting requests.
    """

    def __init__(self, configuration: Configuration, *, shared: bool = False) -> None:
        self._service = service = Service(configuration, shared=shared)
        self.limiter = service.limiter
        self.app = Starlette(
            routes=[
                Route("/", self._guarded(self._page)),
                Route("/runs/{name}", self._guarded(self._part)),
                Route("/runs/{run_id}/{name:path}", self._guarded(self._shown_run)),
                Route("/v1/chat/completions", Completions(service, "chat"), methods=["POST"]),
                Route("/v1/completions", Completions(service, "text"), methods=["POST"]),
                Route("/v1/responses", Completions(service, "responses"), methods=["POST"]),
                Route("/v1/messages", Completions(service, "messages"), methods=["POST"]),
                Route("/v1/models", self._guarded(self._models)),
                Route("/v1/models/{name:path}", self._guarded(self._model)),
                Route("/metrics", self._guarded(self._metrics)),
                Route("/healthz", _healthy),
                Route("/readyz", self._ready),
            ],
            middleware=_middleware(configuration),
            lifespan=self._lifespan,
            exception_handlers={HTTPException: _as_json},
        )
        self.app.router.redirect_slashes = False

    @property
    def draining(self) -> bool:
        """Whether the gateway drains: it takes no new runs, because the server will stop."""
        return self._service.draining

    def drain(self) -> None:
        """Take no new runs, because the server will stop."""
        self._service.drain()

    @asynccontextmanager
    async def _lifespan(self, _: object) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await self._service.aclose()

    def _guarded(
        self, answer: Callable[[Request], Response | Awaitable[Response]]
    ) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            try:
                self._service.check_key(key_of(request.headers))
            except RequestError as error:
                refused = _refusal(error)
                refused.headers["www-authenticate"] = (
                    'Basic realm="streamval: a key as the password"'
                )
                return refused
            answered = answer(request)
            return await answered if isinstance(answered, Awaitable) else answered

        return endpoint

    def _page(self, _: Request) -> Response:
        return (
            self._service.recent.page()
            if self._service.configuration.server.recent
            else not_found()
        )

    def _part(self, request: Request) -> Response:
        return fixed_part(request.path_params["name"]) or not_found()

    async def _shown_run(self, request: Request) -> Response:
        return await self._service.recent.answer(
            request.path_params["run_id"], request.path_params["name"]
        )

    def _models(self, _: Request) -> Response:
        models = [_described(name) for name in self._service.configuration.models]
        return JSONResponse({"object": "list", "data": models})

    def _model(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._service.configuration.models:
            said = error_object(
                f"there is no model {name!r}", "invalid_request_error", "model_not_found", "model"
            )
            return JSONResponse(said, 404)
        return JSONResponse(_described(name))

    def _metrics(self, _: Request) -> Response:
        return Response(self._service.metrics.text(), media_type="text/plain; version=0.0.4")

    async def _ready(self, _: Request) -> Response:
        if self.draining:
            return PlainTextResponse("draining", 503)
        return PlainTextResponse("ready")


def _middleware(configuration: Configuration) -> list[Middleware]:
    """Without keys, accept only loopback host names, against DNS rebinding."""
    if configuration.server.keys:
        return []
    hosts = ["127.0.0.1", "localhost", "[::1]", "::1"]
    return [Middleware(TrustedHostMiddleware, allowed_hosts=hosts)]


def _described(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "streamval"}


async def _as_json(request: Request, error: Exception) -> Response:
    """Answer a wrong path or method as OpenAI and Anthropic do, whose clients read JSON."""
    assert isinstance(error, HTTPException)
    said = error_object(
        f"{request.method} {request.url.path}: {error.detail}", "invalid_request_error"
    )
    return JSONResponse(said, error.status_code, headers=error.headers)


def _refusal(error: RequestError) -> Response:
    return JSONResponse(error_object(str(error), error.kind, error.code, error.param), error.status)


async def _healthy(_: Request) -> Response:
    return PlainTextResponse("ok")
