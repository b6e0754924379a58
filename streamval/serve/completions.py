"""The endpoints that answer with a model's words, in four protocols: read the request, run it, notice when the client goes."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
import time
import traceback
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.types import Receive, Scope, Send

from streamval.aio.tasks import in_thread
from streamval.errors import BackendError, RefusedRequestError, RequestError
from streamval.events import ChunkEvent, CompletedEvent, FullValidationEvent, VerdictEvent
from streamval.pipeline.run import Run
from streamval.requirements.base import Requirement
from streamval.serve.configuration import ServedModel
from streamval.serve.exchange import Exchange
from streamval.serve.limiter import DRAINING
from streamval.serve.metrics import COUNTED
from streamval.serve.service import Service
from streamval.wire import messages_request, openai_chat, openai_text, responses_request
from streamval.wire.completions import CompletionRequest, Protocol
from streamval.wire.errors import error_answer, error_object

log = logging.getLogger("streamval.serve")

BODY_SECONDS = 30.0
"""How long a client may take to send its request."""

SMALL_BODY = 64 * 1024
"""Bytes that are read before a request has a slot. The rest of a longer body is read afterwards."""

FAREWELL_SECONDS = 5.0
"""How long the gateway waits for a client to read why its answer ended."""

_READ = {
    "chat": openai_chat.read_request,
    "text": openai_text.read_request,
    "responses": responses_request.read_request,
    "messages": messages_request.read_request,
}
_REQUEST_ID = re.compile(r"[\w.:-]{1,128}")


class Completions:
    """An endpoint that answers: an ASGI application, so that it notices when the client goes.

    Args:
        current: Returns the service: the models, the keys and the limiter. Each request keeps to one.
        kind: The protocol.
    """

    def __init__(self, current: Callable[[], Service], kind: Protocol) -> None:
        self._current, self._kind = current, kind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, and write its line in the log however it ends."""
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        line = RequestLog(scope["path"], headers.get("x-request-id"))
        exchange = Exchange(send, line.request_id, self._kind)
        try:
            await self._answer(self._current(), exchange, line, headers, receive)
        except asyncio.CancelledError:  # by the server, because the drain timeout expired
            line.outcome, line.status = line.outcome or "stopped", exchange.status or 503
            if not exchange.outcome:
                await _end_with_error(exchange, 503, error_object(*DRAINING))
        finally:
            line.write()

    async def _answer(
        self,
        service: Service,
        exchange: Exchange,
        line: RequestLog,
        headers: dict[str, str],
        receive: Receive,
    ) -> None:
        try:
            service.check_key(key_of(headers), by_browser=False)
            service.check_origin(headers)
            body = Body(receive, headers, service.configuration.server.max_body_bytes)
            if await body.read(SMALL_BODY):
                await self._begin(service, exchange, line, headers, body, service.limiter.slot())
                return
            async with service.limiter.slot():  # so that no more long bodies are kept than runs
                await body.read()
                await self._begin(service, exchange, line, headers, body, nullcontext())
        except _GoneError:
            line.outcome = "client gone"
        except RequestError as error:
            service.metrics.refused.labels(error.code or "bad_request").inc()
            line.outcome, line.status = "refused", error.status
            content = error_object(str(error), error.kind, error.code, error.param)
            await exchange.refuse(error.status, content, error.headers)

    async def _begin(
        self,
        service: Service,
        exchange: Exchange,
        line: RequestLog,
        headers: dict[str, str],
        body: Body,
        slot: AbstractAsyncContextManager[None],
    ) -> None:
        """Answer a request that has come, once it has its slot, unless the client goes."""
        request = _READ[self._kind](body.whole())
        request = replace(request, headers=passed_on(headers, line.request_id))
        if before := request.body.get("previous_response_id"):
            request = request.behind(service.kept.find(service.owner(key_of(headers)), before))
        line.model, line.stream = request.model, request.stream
        if len(body.content) > SMALL_BODY:  # others are answered meanwhile
            schemas = await in_thread(service.schemas_of, request)
        else:
            schemas = service.schemas_of(request)
        run, model = service.run_for(request, schemas)
        work = _run(service, exchange, line, request, run, model, headers, slot)
        await _unless_gone(work, body.receive, line)


async def _run(
    service: Service,
    exchange: Exchange,
    line: RequestLog,
    request: CompletionRequest,
    run: Run[Any],
    model: ServedModel,
    headers: dict[str, str],
    slot: AbstractAsyncContextManager[None],
) -> None:
    async with slot:
        names = tuple(requirement.name for requirement in run.requirements)
        run.subscribe(service.metrics.of(request.model, names), events=COUNTED)
        run.subscribe(line.note, events=NOTED)
        line.watch(run.requirements)
        if service.configuration.server.recent:
            asked = request.turns
            service.recent.add(run, request.model, asked[-1].content if asked else "")
        stored = bool(service.kept.count) and request.body.get("store") is not False
        exchange.begin(
            replace(request, echo={**request.echo, "store": stored}),
            run,
            model,
            wants_events="x-streamval-events" in headers,
            judged=service.decides(request.model),
            headers_after=service.configuration.server.headers_after,
            passes=partial(service.passes, request.model),
        )
        try:
            await _within(service.configuration.server.run_seconds, run, exchange)
            failures = (await run).failures
            if exchange.answered is not None and request.body.get("store") is not False:
                name, answer = exchange.answered
                owner = service.owner(key_of(headers))
                service.kept.keep(owner, name, (*request.said, answer))
            line.rules = list(dict.fromkeys(one.requirement for one in failures))
        except BackendError as error:
            line.error = type(error).__name__
            log.warning("%s: %s", line.request_id, json.dumps(_logged(error)))
            await _end_with_error(exchange, *await _error_of(service, error, request.model))
        except _TooLongError:
            line.error = "TooLongError"
            too_long = error_object("the answer takes too long", "server_timeout")
            await _end_with_error(exchange, 504, too_long)
        except Exception as error:
            line.error = type(error).__name__
            log.error("%s: a run raised %s", line.request_id, json.dumps(_where(error)))  # noqa: TRY400
            unjudged = error_object("the answer could not be judged", "server_error")
            await _end_with_error(exchange, 500, unjudged)
        finally:
            line.status = exchange.status
            line.outcome = line.outcome or exchange.outcome
            service.metrics.runs.labels(request.model, line.outcome or "stopped").inc()
            if line.first_chunk is not None:
                service.metrics.first_chunk.labels(request.model).observe(line.first_chunk)


async def _error_of(
    service: Service, error: BackendError, model: str
) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Return the status, the error and the headers for a client whose upstream failed.

    What an upstream answers in place of a stream is passed on, if its message meets the rules.
    """
    status, content = error_answer(error)
    headers: dict[str, str] = {}
    refused = isinstance(error, RefusedRequestError)
    instead = "the upstream refused the request" if refused else content["error"]["message"]
    if error.answer is not None:
        status, content, headers = error.answer
    message = content["error"]["message"]
    if message != instead and not (message and await service.passes(model, message)):
        content = {"error": {**content["error"], "message": instead}}
    return status, content, headers


PASSED_ON = (
    *("traceparent", "tracestate", "baggage", "openai-organization", "openai-project"),
    *("anthropic-version", "anthropic-beta"),
)
"""The headers of a client that go to the upstream, beside its `x-request-id`; Anthropic's to its own protocol only."""


def passed_on(headers: Mapping[str, str], request_id: str) -> dict[str, str]:
    """Return the headers of a client that go to the upstream.

    Example:
        >>> passed_on({"traceparent": "00-1", "cookie": "a=b"}, "r1")
        {'x-request-id': 'r1', 'traceparent': '00-1'}
    """
    return {
        "x-request-id": request_id,
        **{name: headers[name] for name in PASSED_ON if name in headers},
    }


def key_of(headers: Mapping[str, str]) -> str | None:
    """Return the header with a client's key: Anthropic's clients send it as ``x-api-key``."""
    key = headers.get("x-api-key")
    return headers.get("authorization") if key is None else f"Bearer {key}"


def new_request_id(given: str | None) -> str:
    """Return a client's id of its request, if it is one, else a new one."""
    known = given is not None and _REQUEST_ID.fullmatch(given)
    return given if known and given else secrets.token_hex(12)


NOTED = (ChunkEvent, VerdictEvent, FullValidationEvent, CompletedEvent)
"""The events that `RequestLog.note` takes."""


class RequestLog:
    """One line of JSON a request: no text, no key."""

    def __init__(self, path: str, request_id: str | None) -> None:
        self.request_id = new_request_id(request_id)
        self.path = path
        self.model, self.stream = "", False
        self.status, self.outcome, self.error = 0, "", ""
        self.rules: list[str] = []  # that the answer did not meet
        self.observed: list[str] = []  # that it did not meet, and that only observe
        self._observers: dict[int, str] = {}
        self.first_chunk: float | None = None
        self.attempts, self.usage = 0, (0, 0, 0)
        self._began = time.monotonic()

    def note(self, event: Any) -> None:
        """Keep what the line needs of an event."""
        if event.type == "chunk":
            if self.first_chunk is None:
                self.first_chunk = time.monotonic() - self._began
        elif event.type == "verdict" and event.observed and event.verdict == "fail":
            self._note_observed(event.requirement)
        elif event.type == "full_validation":
            for at, name in self._observers.items():
                if not event.results[at]:
                    self._note_observed(name)
        elif event.type == "completed":
            self.attempts = event.attempts_used
            usage = event.usage
            self.usage = (usage.prompt_tokens or 0, usage.completion_tokens, usage.discarded_tokens)

    def watch(self, requirements: Sequence[Requirement]) -> None:
        """Note which requirements observe."""
        self._observers = {at: one.name for at, one in enumerate(requirements) if not one.enforce}

    def _note_observed(self, name: str) -> None:
        if name not in self.observed:
            self.observed.append(name)

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
            "rules": self.rules,
            "observed": self.observed,
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
    """The client went before it had sent its request."""


class Body:
    """The body of a request, which may come in parts.

    Args:
        receive: As in ASGI.
        headers: The request's.
        most: The bytes that it may have.

    Attributes:
        content: What has come.

    Raises:
        RequestError: With status 413, if it announces more.
    """

    def __init__(self, receive: Receive, headers: dict[str, str], most: int) -> None:
        self.receive = receive
        self.content = bytearray()
        self._most = most
        self._encoding = headers.get("content-encoding", "identity").strip().lower()
        if self._encoding not in ("identity", "gzip"):
            raise RequestError("send the body as it is, or with gzip", status=415)
        announced = headers.get("content-length", "0")
        self._check(int(announced) if announced.isdecimal() else 0)

    async def read(self, enough: int | None = None) -> bool:
        """Read to the end, or until there are `enough` bytes. Return whether it was read to the end.

        Raises:
            RequestError: With status 413 if it is too long, with 408 if it does not come in time.
            _GoneError: If the client goes.
        """
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while enough is None or len(self.content) < enough:
                    message = await self.receive()
                    if message["type"] == "http.disconnect":
                        raise _GoneError
                    self.content += message.get("body", b"")
                    self._check(len(self.content))
                    if not message.get("more_body", False):
                        return True
        except TimeoutError:
            raise RequestError(
                f"the body did not come within {BODY_SECONDS:g} seconds", status=408
            ) from None
        return False

    def whole(self) -> bytes:
        """Return the body, decompressed: no further than to the limit, as a few bytes may become very many.

        Raises:
            RequestError: With status 413 if it is too long, with 400 if it is no gzip.
        """
        if self._encoding == "identity":
            return bytes(self.content)
        reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        try:
            body = reader.decompress(self.content, self._most + 1)
        except zlib.error:
            raise RequestError("the body is not gzip") from None
        self._check(len(body))
        if not reader.eof:
            raise RequestError("the gzip body was cut off")
        return body

    def _check(self, size: int) -> None:
        if size > self._most:
            raise RequestError(f"the body is longer than {self._most:,} bytes", status=413)


async def body_of(receive: Receive, headers: dict[str, str], most: int) -> bytes:
    """Return the body of a request that is not streamed.

    Raises:
        RequestError: As `Body`; with status 400 if the client goes.
    """
    body = Body(receive, headers, most)
    try:
        await body.read()
    except _GoneError:
        raise RequestError("the client has disconnected") from None
    return body.whole()


async def _unless_gone(work: Any, receive: Receive, line: RequestLog) -> None:
    """Run the work; if the client goes, cancel the work and wait for its end."""
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


async def _end_with_error(
    exchange: Exchange, status: int, content: dict[str, Any], headers: dict[str, str] | None = None
) -> None:
    """Send the error that ends an answer. Give up after `FAREWELL_SECONDS` if the client does not read."""
    with suppress(TimeoutError):
        async with asyncio.timeout(FAREWELL_SECONDS):
            await exchange.break_off(status, content, headers)


def _logged(error: BackendError) -> str:
    """Return the log message for an upstream's failure, without text that may quote a client's request."""
    if isinstance(error, RefusedRequestError):
        return type(error).__name__
    return str(error)[:300]


def _where(error: Exception) -> list[str]:
    """Return the type and place of an exception, without its message, which may quote judged text."""
    frames = traceback.extract_tb(error.__traceback__)
    return [type(error).__name__, *(f"{f.filename}:{f.lineno} {f.name}" for f in frames[-6:])]
