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

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from streamval.aio.tasks import in_thread
from streamval.errors import BackendError, RequestError
from streamval.serve.completions import Completions, body_of, key_of, new_request_id, passed_on
from streamval.serve.configuration import Configuration
from streamval.serve.limiter import Limiter
from streamval.serve.service import Service
from streamval.view.watch import fixed_part, not_found
from streamval.wire.completions import CompletionRequest, Protocol, object_in
from streamval.wire.errors import error_answer, error_object
from streamval.wire.messages_request import read_counted
from streamval.wire.protocols import error_body


class Gateway:
    """Serves the models of a configuration.

    Args:
        configuration: What to serve; see `read_configuration`.
        shared: Whether several processes serve it, and share their metrics.

    Attributes:
        app: The ASGI application.
    """

    def __init__(self, configuration: Configuration, *, shared: bool = False) -> None:
        self._service = Service(configuration, shared=shared)
        self._retiring: set[asyncio.Task[None]] = set()
        self.app = Starlette(
            routes=[
                Route("/", self._guarded(self._page)),
                Route("/runs/{name}", self._guarded(self._part)),
                Route("/runs/{run_id}/{name:path}", self._guarded(self._shown_run)),
                Route("/v1/chat/completions", Completions(self._current, "chat"), methods=["POST"]),
                Route("/v1/completions", Completions(self._current, "text"), methods=["POST"]),
                Route("/v1/responses", Completions(self._current, "responses"), methods=["POST"]),
                Route("/v1/messages", Completions(self._current, "messages"), methods=["POST"]),
                Route("/v1/messages/count_tokens", self._guarded(self._count), methods=["POST"]),
                *(
                    Route(f"/v1/{name}", self._guarded(self._forward), methods=["POST"])
                    for name in ("embeddings", "moderations")
                ),
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
    def limiter(self) -> Limiter:
        """Limits running and waiting requests."""
        return self._service.limiter

    def _current(self) -> Service:
        return self._service

    def reload(self, configuration: Configuration) -> None:
        """Serve another configuration from the next request on. Running requests end by the old one.

        The address, `cors_origins`, and the host names without keys stay as they were at the start.
        """
        old, self._service = self._service, Service(configuration, metrics=self._service.metrics)
        retiring = asyncio.create_task(old.retire())
        self._retiring.add(retiring)
        retiring.add_done_callback(self._retiring.discard)

    @property
    def draining(self) -> bool:
        """Whether the gateway drains: it takes no new runs, because the server will stop."""
        return self._service.draining

    def drain(self) -> None:
        """Take no new runs, because the server will stop."""
        self._service.drain()

    @asynccontextmanager
    async def _lifespan(self, _: object) -> AsyncIterator[None]:
        await self._service.prepare()
        try:
            yield
        finally:
            for retiring in self._retiring:
                retiring.cancel()
            await self._service.aclose()

    def _guarded(
        self, answer: Callable[[Request], Response | Awaitable[Response]]
    ) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            protocol: Protocol = "messages" if "/messages" in request.url.path else "chat"
            try:
                self._service.check_key(key_of(request.headers))
                if request.method == "POST":
                    self._service.check_origin(request.headers)
                answered = answer(request)
                return await answered if isinstance(answered, Awaitable) else answered
            except RequestError as error:
                refused = _refusal(error, protocol)
                if error.status == 401:  # a browser asks for the key of the page
                    realm = 'Basic realm="streamval: a key as the password"'
                    refused.headers["www-authenticate"] = realm
                return refused
            except BackendError as error:
                status, said = error_answer(error)
                return JSONResponse(error_body(protocol, status, said), status)

        return endpoint

    async def _body(self, request: Request) -> bytes:
        most = self._service.configuration.server.max_body_bytes
        return await body_of(request.receive, dict(request.headers), most)

    async def _forward(self, request: Request) -> Response:
        """Pass a request on, and its answer. Nothing is judged."""
        name = request.url.path.rsplit("/", 1)[1]
        async with self._service.limiter.slot():
            body = await self._body(request)
            sent = passed_on(request.headers, new_request_id(request.headers.get("x-request-id")))
            status, said = await self._service.forwarder(name).forward(f"/{name}", body, sent)
        return Response(said, status, media_type="application/json")

    async def _count(self, request: Request) -> Response:
        """Count the tokens of a request, by LiteLLM's tokenizers: about as many as the upstream's own."""
        asked = read_counted(object_in(await self._body(request)))
        self._service.model_of(asked)
        return JSONResponse({"input_tokens": await in_thread(_tokens_in, asked)})

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
    middleware: list[Middleware] = []
    if origins := configuration.server.cors_origins:
        methods = ["GET", "POST"]
        middleware.append(
            Middleware(
                CORSMiddleware, allow_origins=origins, allow_methods=methods, allow_headers=["*"]
            )
        )
    if not configuration.server.keys:
        hosts = ["127.0.0.1", "localhost", "[::1]", "::1"]
        middleware.append(Middleware(TrustedHostMiddleware, allowed_hosts=hosts))
    return middleware


def _described(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "streamval"}


async def _as_json(request: Request, error: Exception) -> Response:
    """Answer a wrong path or method as OpenAI and Anthropic do, whose clients read JSON."""
    assert isinstance(error, HTTPException)
    said = error_object(
        f"{request.method} {request.url.path}: {error.detail}", "invalid_request_error"
    )
    return JSONResponse(said, error.status_code, headers=error.headers)


def _refusal(error: RequestError, protocol: Protocol) -> Response:
    said = error_object(str(error), error.kind, error.code, error.param)
    return JSONResponse(
        error_body(protocol, error.status, said), error.status, headers=dict(error.headers)
    )


def _tokens_in(request: CompletionRequest) -> int:
    import litellm  # takes seconds to import

    messages = [dict(message) for message in request.messages]
    tools: Any = request.options.get("tools")
    return int(litellm.token_counter("gpt-4o", messages=messages, tools=tools))


async def _healthy(_: Request) -> Response:
    return PlainTextResponse("ok")
