"""The gateway: an ASGI application that speaks OpenAI's protocol and sends only what has been judged.

What a client may rely on:

- Only chunks that passed are sent. A repair that continues shows as nothing but a pause.
- The status line waits for the first good chunk, so an upstream that fails early is a real status.
- An answer that failed for good ends with the finish reason ``content_filter``, or with an error. An upstream
  that broke off ends it with an error frame, and without ``[DONE]``.
- When the client goes, the upstream is closed at once.
- Reasoning that a model sends beside its answer is not judged, and so it is not sent.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import re
import secrets
import time
from collections.abc import Awaitable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from streamval.backends.base import GenerationRequest
from streamval.errors import (
    BackendError,
    ConnectionFailedError,
    RateLimitError,
    StallError,
    StreamBrokenError,
    UsageError,
)
from streamval.pipeline.pipeline import Pipeline
from streamval.serve.configuration import requirement_of
from streamval.serve.exchange import Exchange
from streamval.serve.limits import FullError, Places
from streamval.serve.metrics import Metrics
from streamval.serve.recent import Recent, key_in
from streamval.serve.schemas import format_of
from streamval.serve.tools import meant, valid_tool_calls, validators_of
from streamval.serve.upstream import RefusedRequestError, Relay, endpoint_of, known_options
from streamval.serve.wire import BadRequestError, asked, error_object
from streamval.view.watch import fixed_part, not_found

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from streamval.pipeline.run import Run
    from streamval.serve.configuration import Configuration, ServedModel
    from streamval.serve.upstream import Endpoint
    from streamval.serve.wire import Asked, Kind

log = logging.getLogger("streamval.serve")

BODY_SECONDS = 30.0
"""How long a client may take to send what it asks."""

_REQUEST_ID = re.compile(r"[\w.:-]{1,128}")


class Gateway:
    """Serves the models of a configuration.

    Args:
        configuration: What to serve; see `read_configuration`.
        shared: Whether several processes serve it, and share their metrics.

    Attributes:
        app: The ASGI application.
        places: Who runs and waits.
    """

    def __init__(self, configuration: Configuration, *, shared: bool = False) -> None:
        self.configuration = configuration
        settings = configuration.server
        self.places = Places(settings.max_runs, settings.max_waiting)
        self.metrics = Metrics(self.places, shared=shared)
        self.draining = False
        self._keys = [_digest(key) for key in settings.keys]
        self._endpoints: dict[str, Endpoint] = {
            name: endpoint_of(upstream) for name, upstream in configuration.upstreams.items()
        }
        self._requirements = {
            name: tuple(requirement_of(written) for written in model.requirements)
            for name, model in configuration.models.items()
        }
        self.recent = Recent(settings.recent)
        self.app = Starlette(
            routes=[
                Route("/", self._guarded(self._page)),
                Route("/runs/{name}", self._guarded(self._part)),
                Route("/runs/{run_id}/{name:path}", self._guarded(self._shown_run)),
                Route("/v1/chat/completions", _Completions(self, "chat"), methods=["POST"]),
                Route("/v1/completions", _Completions(self, "text"), methods=["POST"]),
                Route("/v1/models", self._guarded(self._models)),
                Route("/metrics", self._guarded(self._metrics)),
                Route("/healthz", _healthy),
                Route("/readyz", self._ready),
            ],
            middleware=self._middleware(),
            lifespan=self._lifespan,
        )
        self.app.router.redirect_slashes = False

    def _middleware(self) -> list[Middleware]:
        """Without keys, a name that leads here is not enough: any page may have one made (DNS rebinding)."""
        if self._keys:
            return []
        hosts = ["127.0.0.1", "localhost", "[::1]", "::1"]
        return [Middleware(TrustedHostMiddleware, allowed_hosts=hosts)]

    def drain(self) -> None:
        """Take no new runs: the server has been told to stop."""
        self.draining = True
        self.recent.close()

    @asynccontextmanager
    async def _lifespan(self, _: object) -> AsyncIterator[None]:
        try:
            yield
        finally:
            for endpoint in self._endpoints.values():
                await endpoint.aclose()

    # Who asks

    def check_origin(self, headers: Mapping[str, str]) -> None:
        """Refuse what a page of somebody else may make a browser send, where no key says who asks.

        Raises:
            BadRequestError: With status 415, or 503 while the server drains.
        """
        if self.draining:
            message = "the server is stopping; try again"
            raise BadRequestError(message, status=503, code="draining")
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if not self._keys and kind != "application/json":
            message = "send application/json"
            raise BadRequestError(message, status=415)

    def check_key(self, header: str | None, *, by_browser: bool = True) -> None:
        """Refuse a client without a key, where there are keys. In constant time for any key.

        Args:
            header: What it says of itself.
            by_browser: Whether a browser may say it (``Basic``), which it does for any page that asks.

        Raises:
            BadRequestError: With status 401.
        """
        if not self._keys:
            return
        said = (header or "").strip()
        given = _digest(
            (key_in(said) if by_browser or said[:6].lower() == "bearer" else None) or ""
        )
        if not sum(hmac.compare_digest(given, key) for key in self._keys):  # all of them, always
            message = "a key is needed: send it as `Authorization: Bearer …`"
            raise BadRequestError(message, status=401, code="invalid_api_key")

    def _guarded(
        self, answer: Callable[[Request], Response | Awaitable[Response]]
    ) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            try:
                self.check_key(request.headers.get("authorization"))
            except BadRequestError as error:
                refused = _refusal(error)
                refused.headers["www-authenticate"] = (
                    'Basic realm="streamval: a key as the password"'
                )
                return refused
            answered = answer(request)
            return await answered if isinstance(answered, Awaitable) else answered

        return endpoint

    # What is small

    def _page(self, _: Request) -> Response:
        return self.recent.page() if self.configuration.server.recent else not_found()

    def _part(self, request: Request) -> Response:
        return fixed_part(request.path_params["name"]) or not_found()

    async def _shown_run(self, request: Request) -> Response:
        return await self.recent.answer(request.path_params["run_id"], request.path_params["name"])

    def _models(self, _: Request) -> Response:
        models = [
            {"id": name, "object": "model", "created": 0, "owned_by": "streamval"}
            for name in self.configuration.models
        ]
        return JSONResponse({"object": "list", "data": models})

    def _metrics(self, _: Request) -> Response:
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def _ready(self, _: Request) -> Response:
        if self.draining:
            return PlainTextResponse("draining", 503)
        return PlainTextResponse("ready")

    # A run

    def run_for(self, asking: Asked) -> tuple[Run[Any], Relay | None, ServedModel]:
        """The run that answers a request, not started yet.

        Raises:
            BadRequestError: If it cannot be served.
        """
        model = self.configuration.models.get(asking.model)
        if model is None:
            known = ", ".join(self.configuration.models)
            message = f"there is no model {asking.model!r}; there are {known}"
            raise BadRequestError(message, status=404, code="model_not_found", param="model")
        endpoint = self._endpoints[model.upstream]
        backend = endpoint.relay(asking)
        relay = backend if isinstance(backend, Relay) else None
        rules = self._requirements[asking.model]
        options = dict(asking.options)
        wanted = format_of(options.get("response_format"))
        shows = self.configuration.server.recent > 0
        upstream = self.configuration.upstreams[model.upstream]
        judge = self._endpoints[model.judge_upstream or model.upstream].judge()
        more = []
        if relay is not None:  # without tools, no call is valid
            tools = validators_of(options.get("tools", upstream.options.get("tools", [])))
            more.append(valid_tool_calls(relay, tools, rules, judge))
        if wanted is not None:
            more.append(meant(rules, judge))
        try:
            pipeline: Pipeline[Any] = Pipeline(
                backend,
                requirements=[*rules, *more],
                chunking=model.chunking,
                retry=None if model.repair is None else model.repair.repair(),
                validation_backend=judge,
                format=wanted,
                emit_tokens=shows,
                emit_verdicts=shows,
                stall_timeout=upstream.stall_timeout,
            )
            if relay is None:  # such a backend asks for a type itself, and has defaults of its own
                request = backend.request(asking.turns, **known_options(options))
            else:
                request = GenerationRequest(asking.turns, options=options)
        except BadRequestError:
            raise
        except UsageError as error:
            raise BadRequestError(str(error)) from None
        return pipeline.start_request(request), relay, model


class _Completions:
    """The two endpoints that answer with completions, as ASGI applications of their own."""

    def __init__(self, gateway: Gateway, kind: Kind) -> None:
        self._gateway, self._kind = gateway, kind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        told = _RequestLog(scope["path"], headers.get("x-request-id"))
        exchange = Exchange(send, told.request_id)
        answering = asyncio.ensure_future(self._answer(exchange, told, headers, receive))
        try:
            await answering
        except asyncio.CancelledError:
            answering.cancel()
            await asyncio.wait([answering])
            told.outcome = told.outcome or "stopped"
            raise
        finally:
            told.write()

    async def _answer(
        self, exchange: Exchange, told: _RequestLog, headers: dict[str, str], receive: Receive
    ) -> None:
        gateway = self._gateway
        try:
            gateway.check_key(headers.get("authorization"), by_browser=False)
            gateway.check_origin(headers)
            most = gateway.configuration.server.max_body_bytes
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    body = await _body(receive, headers, most)
            except TimeoutError:
                message = f"the body did not come within {BODY_SECONDS:g} seconds"
                raise BadRequestError(message, status=408) from None
            asking = asked(body, self._kind)
            told.model, told.stream = asking.model, asking.stream
            run, relay, model = gateway.run_for(asking)
            work = self._run(exchange, told, asking, run, relay, model, headers)
            await _unless_gone(work, receive, told)
        except _GoneError:
            told.outcome = "client gone"
        except FullError as error:
            gateway.metrics.refused.labels("busy").inc()
            told.outcome, told.status = "busy", 429
            said = error_object(str(error), "rate_limit_error", "server_busy")
            await exchange.refuse(429, said, {"retry-after": str(error.retry_after)})
        except BadRequestError as error:
            gateway.metrics.refused.labels(error.code or "bad_request").inc()
            told.outcome, told.status = "refused", error.status
            said = error_object(str(error), "invalid_request_error", error.code, error.param)
            await exchange.refuse(error.status, said)

    async def _run(
        self,
        exchange: Exchange,
        told: _RequestLog,
        asking: Asked,
        run: Run[Any],
        relay: Relay | None,
        model: ServedModel,
        headers: dict[str, str],
    ) -> None:
        gateway = self._gateway
        async with gateway.places.one():
            gateway.metrics.note_places()  # which other processes show as well
            names = tuple(requirement.name for requirement in run.requirements)
            run.subscribe(gateway.metrics.of(asking.model, names))
            run.subscribe(told.note)
            if gateway.configuration.server.recent:
                gateway.recent.add(run)
            exchange.begin(asking, run, relay, model, wants_events="x-streamval-events" in headers)
            try:
                async with run:
                    await exchange.answer()
            except BackendError as error:
                told.error = type(error).__name__
                status, kind, said = _told_of(error)
                log.warning("%s: %s", told.request_id, json.dumps(str(error)[:300]))
                more = {}
                if isinstance(error, RateLimitError) and error.retry_after is not None:
                    more["retry-after"] = str(round(error.retry_after))
                await exchange.break_off(status, error_object(said, kind), more)
            except Exception as error:
                told.error = type(error).__name__
                log.exception("a run of %s raised", asking.model)
                unjudged = error_object("the answer could not be judged", "server_error")
                await exchange.break_off(500, unjudged)
            finally:
                told.status = exchange.status
                told.outcome = told.outcome or exchange.outcome
                gateway.metrics.runs.labels(asking.model, told.outcome or "stopped").inc()
                if told.first_chunk is not None:
                    gateway.metrics.first_chunk.labels(asking.model).observe(told.first_chunk)


class _RequestLog:
    """One line of JSON a request: no text, no key."""

    def __init__(self, path: str, request_id: str | None) -> None:
        known = request_id is not None and _REQUEST_ID.fullmatch(request_id)
        self.request_id = request_id if known and request_id else secrets.token_hex(12)
        self.path = path
        self.model, self.stream = "", False
        self.status, self.outcome, self.error = 0, "", ""
        self.first_chunk: float | None = None
        self.attempts, self.usage = 0, (0, 0, 0)
        self._began = time.monotonic()

    def note(self, event: Any) -> None:
        """Take from a run's events what the line says."""
        if event.type == "chunk" and self.first_chunk is None:
            self.first_chunk = time.monotonic() - self._began
        elif event.type == "completed":
            self.attempts = event.attempts_used
            usage = event.usage
            self.usage = (
                usage.prompt_tokens or 0,
                usage.completion_tokens,
                usage.discarded_tokens,
            )

    def write(self) -> None:
        """Write the line."""
        first = None if self.first_chunk is None else round(self.first_chunk, 4)
        line = {
            "time": round(time.time(), 3),
            "id": self.request_id,
            "path": self.path,
            "model": self.model[:200],
            "stream": self.stream,
            "status": self.status,
            "outcome": self.outcome,
            "error": self.error,
            "attempts": self.attempts,
            "tokens_in": self.usage[0],
            "tokens_out": self.usage[1],
            "tokens_discarded": self.usage[2],
            "first_chunk_seconds": first,
            "seconds": round(time.monotonic() - self._began, 4),
        }
        log.info("%s", json.dumps(line))


class _GoneError(Exception):
    """The client has gone before it had said what it asks."""


async def _body(receive: Receive, headers: dict[str, str], most: int) -> bytes:
    """The request's body, if it is not too long.

    Raises:
        BadRequestError: With status 413.
    """
    too_long = BadRequestError(f"the body is longer than {most:,} bytes", status=413)
    if (
        headers.get("content-length", "0").isdecimal()
        and int(headers.get("content-length", 0)) > most
    ):
        raise too_long
    pieces, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _GoneError
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > most:
            raise too_long
        if not message.get("more_body", False):
            return b"".join(pieces)


async def _unless_gone(work: Any, receive: Receive, told: _RequestLog) -> None:
    """Do the work, unless the client goes: then it is cancelled, and waited for."""
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_until_gone(receive))
    try:
        await asyncio.wait([working, gone], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            told.outcome = "client gone"
    finally:
        gone.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait([working])
    if not working.cancelled():
        working.result()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _told_of(error: BackendError) -> tuple[int, str, str]:
    """Status, kind and words for a client: none of the upstream's, which were not judged."""
    match error:
        case RateLimitError():
            return 429, "rate_limit_error", "the upstream asks for fewer requests"
        case StallError():
            return 504, "upstream_timeout", "the upstream is silent"
        case RefusedRequestError():  # about what the client asked, before anything was written
            return 400, "invalid_request_error", str(error)
        case StreamBrokenError():
            return 502, "upstream_error", "the upstream broke off"
        case ConnectionFailedError():
            return 502, "upstream_error", "the upstream does not answer"
    return 502, "upstream_error", "the upstream failed"


def _refusal(error: BadRequestError) -> Response:
    return JSONResponse(
        error_object(str(error), "invalid_request_error", error.code, error.param), error.status
    )


async def _healthy(_: Request) -> Response:
    return PlainTextResponse("ok")


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()
