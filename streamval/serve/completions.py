"""The two endpoints that answer with completions: read what is asked, run it, and see whether the client goes."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
import time
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from streamval.aio.places import STOPPING, ClosedError, FullError
from streamval.errors import (
    BackendError,
    ConnectionFailedError,
    RateLimitError,
    StallError,
    StreamBrokenError,
)
from streamval.serve.exchange import Exchange
from streamval.serve.upstream import RefusedRequestError
from streamval.serve.wire import BadRequestError, asked, error_object

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from streamval.pipeline.run import Run
    from streamval.serve.configuration import ServedModel
    from streamval.serve.service import Service
    from streamval.serve.upstream import Relay
    from streamval.serve.wire import Asked, Kind

log = logging.getLogger("streamval.serve")

BODY_SECONDS = 30.0
"""How long a client may take to send what it asks."""

FAREWELL_SECONDS = 5.0
"""How long a client has to read why its answer has ended: who reads nothing is not waited for."""

_REQUEST_ID = re.compile(r"[\w.:-]{1,128}")


class Completions:
    """An endpoint that answers with completions: an ASGI application, as it has to see the client go.

    Args:
        service: Whose models, keys and places it uses.
        kind: Which completions.
    """

    def __init__(self, service: Service, kind: Kind) -> None:
        self._service, self._kind = service, kind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, and write its line in the log however it ends."""
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        line = RequestLog(scope["path"], headers.get("x-request-id"))
        exchange = Exchange(send, line.request_id)
        try:
            await self._answer(exchange, line, headers, receive)
        except asyncio.CancelledError:  # by the server, whose time to drain is over
            line.outcome, line.status = line.outcome or "stopped", exchange.status or 503
            if not exchange.outcome:
                await _farewell(exchange, 503, error_object(STOPPING, "server_error", "draining"))
        finally:
            line.write()

    async def _answer(
        self, exchange: Exchange, line: RequestLog, headers: dict[str, str], receive: Receive
    ) -> None:
        service = self._service
        try:
            service.check_key(headers.get("authorization"), by_browser=False)
            service.check_origin(headers)
            most = service.configuration.server.max_body_bytes
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    body = await _body(receive, headers, most)
            except TimeoutError:
                message = f"the body did not come within {BODY_SECONDS:g} seconds"
                raise BadRequestError(message, status=408) from None
            asking = asked(body, self._kind)
            line.model, line.stream = asking.model, asking.stream
            run, relay, model = service.run_for(asking)
            work = self._run(exchange, line, asking, run, relay, model, headers)
            await _unless_gone(work, receive, line)
        except _GoneError:
            line.outcome = "client gone"
        except ClosedError:
            line.outcome, line.status = "refused", 503
            await exchange.refuse(503, error_object(STOPPING, "server_error", "draining"))
        except FullError as error:
            service.metrics.refused.labels("busy").inc()
            line.outcome, line.status = "busy", 429
            said = error_object(str(error), "rate_limit_error", "server_busy")
            await exchange.refuse(429, said, {"retry-after": str(error.retry_after)})
        except BadRequestError as error:
            service.metrics.refused.labels(error.code or "bad_request").inc()
            line.outcome, line.status = "refused", error.status
            said = error_object(str(error), "invalid_request_error", error.code, error.param)
            await exchange.refuse(error.status, said)

    async def _run(
        self,
        exchange: Exchange,
        line: RequestLog,
        asking: Asked,
        run: Run[Any],
        relay: Relay | None,
        model: ServedModel,
        headers: dict[str, str],
    ) -> None:
        service = self._service
        async with service.places.one():
            service.metrics.note_places()  # which other processes show as well
            names = tuple(requirement.name for requirement in run.requirements)
            run.subscribe(service.metrics.of(asking.model, names))
            run.subscribe(line.note)
            if service.configuration.server.recent:
                service.recent.add(run)
            exchange.begin(asking, run, relay, model, wants_events="x-streamval-events" in headers)
            try:
                await _within(service.configuration.server.run_seconds, run, exchange)
            except BackendError as error:
                line.error = type(error).__name__
                status, kind, said = _said_of(error)
                log.warning("%s: %s", line.request_id, json.dumps(_words_of(error)))
                more = {}
                if isinstance(error, RateLimitError) and error.retry_after is not None:
                    more["retry-after"] = str(round(error.retry_after))
                await _farewell(exchange, status, error_object(said, kind), more)
            except _TooLongError:
                line.error = "TooLongError"
                too_long = error_object("the answer takes too long", "server_timeout")
                await _farewell(exchange, 504, too_long)
            except Exception as error:
                line.error = type(error).__name__
                log.error("%s: a run raised %s", line.request_id, json.dumps(_where(error)))  # noqa: TRY400
                unjudged = error_object("the answer could not be judged", "server_error")
                await _farewell(exchange, 500, unjudged)
            finally:
                line.status = exchange.status
                line.outcome = line.outcome or exchange.outcome
                service.metrics.runs.labels(asking.model, line.outcome or "stopped").inc()
                if line.first_chunk is not None:
                    service.metrics.first_chunk.labels(asking.model).observe(line.first_chunk)


class RequestLog:
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


class _TooLongError(Exception):
    """A run takes longer than the file allows."""


async def _within(seconds: float, run: Run[Any], exchange: Exchange) -> None:
    """Answer, unless it takes too long.

    Raises:
        Exception: What ends the run, or `_TooLongError`.
    """
    limit = asyncio.timeout(seconds)
    try:
        async with limit, run:
            await exchange.answer()
    except TimeoutError:
        if limit.expired():
            raise _TooLongError from None
        raise


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


async def _unless_gone(work: Any, receive: Receive, line: RequestLog) -> None:
    """Do the work, unless the client goes: then it is cancelled, and waited for."""
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_until_gone(receive))
    try:
        await asyncio.wait([working, gone], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            line.outcome = "client gone"
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


async def _farewell(
    exchange: Exchange, status: int, said: dict[str, Any], headers: dict[str, str] | None = None
) -> None:
    """Say why an answer ends, unless the client does not read."""
    with suppress(TimeoutError):
        async with asyncio.timeout(FAREWELL_SECONDS):
            await exchange.break_off(status, said, headers)


def _words_of(error: BackendError) -> str:
    """What the log says of an upstream's failure: not what it says of a client's request."""
    if isinstance(error, RefusedRequestError):
        return type(error).__name__
    return str(error)[:300]


def _where(error: Exception) -> list[str]:
    """What raised, and where: its words may quote what was judged."""
    frames = traceback.extract_tb(error.__traceback__)
    return [type(error).__name__, *(f"{f.filename}:{f.lineno} {f.name}" for f in frames[-6:])]


def _said_of(error: BackendError) -> tuple[int, str, str]:
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
