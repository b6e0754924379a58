"""A model behind the gateway, and one request's relay to it: what the client asked goes up, frames come down.

A provider's package is not used: without one a frame costs a tenth, and a client's request goes through as it
is, with what no package knows.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from contextlib import suppress
from math import isfinite
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated, Any, Literal

import aiohttp
from pydantic import BaseModel, ConfigDict, Field, model_validator

from streamval.backends.base import Backend, Delta
from streamval.backends.continuing import continued
from streamval.backends.provider import seconds_in
from streamval.backends.secrets import without_secrets
from streamval.errors import (
    AuthenticationError,
    BackendError,
    ConnectionFailedError,
    RateLimitError,
    StreamBrokenError,
    UnknownModelError,
)
from streamval.serve.frames import FrameReader
from streamval.serve.wire import TokenLogprob, text_of
from streamval.types.results import Usage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from streamval.backends.base import GenerationRequest
    from streamval.types.context import Message

SHOWN = 300
"""Characters of a server's message that an error repeats."""

MAX_ANSWER = 64 * 1024 * 1024
"""Bytes of an answer, with all that its frames say beside the text, at most."""

END_SECONDS = 0.25
"""How long the end of a connection is waited for, once all has been said."""

MAX_CALLS, MAX_ARGUMENTS, MAX_LOGPROBS = 32, 256 * 1024, 100_000
"""Tool calls in an answer, characters of one call, and tokens that wait to be sent, at most."""

MAX_TOKENS = 2**40
"""Tokens that a server may say it has read or written. More is no count."""

IMPOSSIBLE = -9999.0
"""The log probability of what could not be, as OpenAI's reference has it."""


class Upstream(BaseModel):
    """A model behind the gateway.

    Attributes:
        model: ``local`` for the embedded one, ``openai/NAME`` for an endpoint of OpenAI's shape, else a
            LiteLLM name.
        api_base: Where the endpoint is, with its ``/v1``.
        api_key: Its key.
        completion: Which completions an ``openai/`` endpoint is asked for.
        continues: How a chat's server continues the assistant's last message; see `OpenAIBackend`.
        options: Sent with every request that does not say otherwise.
        stall_timeout: Seconds without a delta before the upstream counts as broken.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: Annotated[str, Field(pattern=r"^[^/\s]+(/[^\s]+)?$")]
    api_base: Annotated[str, Field(pattern=r"^https?://[^\s]+$")] | None = None
    api_key: Annotated[str, Field(pattern=r"^[!-~]+$")] | None = Field(default=None, repr=False)
    completion: Literal["chat", "text"] = "chat"
    continues: Literal["message", "flag", "vllm"] | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    stall_timeout: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = 120.0

    @model_validator(mode="after")
    def _is_whole(self) -> Upstream:
        if self.model == "local" and (self.api_base or self.api_key or self.continues):
            message = "the embedded model has no api_base, api_key or continues"
            raise ValueError(message)
        return self

    @property
    def can_continue(self) -> bool:
        """Whether a repair may go on from what was good."""
        if self.model == "local" or self.continues is not None:
            return True
        return self.model.startswith("openai/") and self.completion == "text"


class RefusedRequestError(BackendError):
    """The upstream says that the client's request is wrong."""


class Relay(Backend):
    """The upstream of one request: a backend that also keeps what is not text.

    Attributes:
        tool_calls: The tool calls of the last attempt, as far as they have come.
        logprobs: Those of the tokens that are not released yet.
    """

    def __init__(self) -> None:
        self.tool_calls: list[dict[str, Any]] = []
        self.logprobs: deque[TokenLogprob] = deque()

    def logprobs_of(self, text: str, end: int) -> list[TokenLogprob]:
        """Take those of the tokens of a text that ends at an offset, and that it really has."""
        start = end - len(text)
        taken = []
        while self.logprobs and self.logprobs[0].end <= end:
            known = self.logprobs.popleft()
            if known.end > start and text.endswith(known.token, 0, known.end - start):
                taken.append(known)
        return taken


class OpenAIRelay(Relay):
    """Speaks to an endpoint of OpenAI's shape for one request."""

    def __init__(
        self,
        upstream: Upstream,
        url: str,
        session: aiohttp.ClientSession,
        raw: Sequence[Mapping[str, Any]],
    ) -> None:
        super().__init__()
        self._upstream, self._url, self._session = upstream, url, session
        self._raw = raw
        self._for_client = bool(raw)  # and not for a judge, who needs the text alone
        self._attempts = 0
        self._begin_at(0)
        self.model = upstream.model.removeprefix("openai/")
        self.supports_prefix = upstream.can_continue

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Delta]:
        """Generate; closing closes the connection."""
        self._begin_at(len(request.prefix or ""))
        self._attempts += 1
        response: aiohttp.ClientResponse | None = None
        ended = done = False
        size = 0
        try:
            body = self._body(request)
            # A redirect would take our key, and the client's words, to another server.
            response = await self._session.post(self._url, json=body, allow_redirects=False)
            await self._check(response)
            reader = FrameReader()
            async for piece in response.content.iter_any():
                for data in reader.feed(piece):
                    done = done or data == b"[DONE]"
                    if done:
                        break
                    size += len(data)
                    if size > MAX_ANSWER:
                        message = f"{self.model} sent an answer of more than {MAX_ANSWER:,} bytes"
                        raise StreamBrokenError(message)
                    delta = self._delta(data)
                    ended = ended or delta.finish_reason is not None
                    yield delta
                if done:
                    break
            if not ended:
                message = f"{self.model} broke off: its stream ended without a finish reason"
                raise StreamBrokenError(message)
            with suppress(TimeoutError):  # a connection that is read to its end can be used again
                async with asyncio.timeout(END_SECONDS):
                    await response.content.readany()
            for call in self.tool_calls:  # no arguments at all mean none of them
                call["function"]["arguments"] = call["function"]["arguments"] or "{}"
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._broken(error, answered=response is not None) from None
        finally:
            if response is not None:
                response.close()

    async def _check(self, response: aiohttp.ClientResponse) -> None:
        """Raise what the upstream says in place of an answer."""
        if response.status != 200:  # noqa: PLR2004  OK
            raise await self._refused(response)
        kind = response.content_type
        if kind != "text/event-stream":
            message = f"{self.model} answered with {kind}, which is no stream; check api_base"
            raise StreamBrokenError(message)
        if response.headers.get("Content-Encoding", "identity") != "identity":
            message = f"{self.model} sent a compressed stream, which it was not asked for"
            raise StreamBrokenError(message)

    def _body(self, request: GenerationRequest) -> dict[str, Any]:
        body = {
            **options_for(self._upstream.completion, {**self._upstream.options, **request.options}),
            "model": self.model,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self._upstream.completion == "text":
            said = [message.content for message in request.messages]
            return body | {"prompt": "\n\n".join(said) + (request.prefix or "")}
        messages = merged(self._raw, request.messages)
        if request.prefix:
            way = self._upstream.continues or "message"
            body |= continued(messages, request.prefix, way)
        return body | {"messages": messages}

    def _begin_at(self, offset: int) -> None:
        """Forget what an earlier attempt has sent beside its text."""
        self.tool_calls, self.logprobs = [], deque()
        self._at, self._half = offset, False  # where the text ends, and whether in half a character
        # By the server's index: the last call that was begun, and the id that the server gave it.
        self._calls: dict[int, tuple[dict[str, Any], object]] = {}

    def _delta(self, data: bytes) -> Delta:
        try:
            frame = json.loads(data)
            if frame.get("error"):
                said = frame["error"]
                said = said.get("message", said) if isinstance(said, dict) else said
                message = f"{self.model} broke off: {self._shown(said)}"
                raise StreamBrokenError(message)
            choice: dict[str, Any] = next(
                (c for c in frame.get("choices") or () if not c.get("index")), {}
            )
            said = choice.get("delta") or {}
            text = choice.get("text") or said.get("content") or ""
            if not isinstance(text, str):
                text = text_of(text)
            if self._for_client:
                for fragment in said.get("tool_calls") or ():
                    self._add_call(fragment)
                self._add_logprobs(text, choice.get("logprobs") or {})
            reason = choice.get("finish_reason")
            refusal = said.get("refusal")
            return Delta(
                text,
                _usage(frame.get("usage")),
                reason if isinstance(reason, str) and reason else None,
                refusal if isinstance(refusal, str) else None,
            )
        except (
            ArithmeticError,
            ValueError,
            AttributeError,
            TypeError,
            KeyError,
            RecursionError,
        ) as error:
            message = f"{self.model} sent a frame that is none of OpenAI's: {self._shown(error)}"
            raise StreamBrokenError(message) from None

    def _add_logprobs(self, text: str, said: Mapping[str, Any]) -> None:
        """Note where the tokens of a delta end. One character may come in two deltas, half in each."""
        if self._half and "\udc00" <= text[:1] <= "\udfff":
            self._at -= 1
        at = self._at
        for token, logprob in _logprobs(said):
            at += len(token)
            if logprob is not None:  # of the first token of a text nothing may be known
                known = float(logprob)  # JSON has no infinity, and OpenAI writes it so
                finite = known if isfinite(known) else IMPOSSIBLE
                self.logprobs.append(TokenLogprob(at, str(token), finite))
        if len(self.logprobs) > MAX_LOGPROBS:
            message = f"{self.model} sent log probabilities that are of no text"
            raise StreamBrokenError(message)
        self._at += len(text)
        if text:
            self._half = "\ud800" <= text[-1] <= "\udbff"

    def _add_call(self, fragment: Mapping[str, Any]) -> None:
        """A fragment of a tool call: the name first, the arguments in pieces."""
        at = fragment.get("index")
        at = 0 if at is None else at
        if type(at) is not int or not 0 <= at < MAX_CALLS:
            message = f"{self.model} sent a tool call with index {at!r}"
            raise StreamBrokenError(message)
        function, given = fragment.get("function") or {}, fragment.get("id")
        call, known = self._calls.get(at, (None, None))
        # Some servers give index 0 to every call; a name with another id begins another one.
        if call is None or (known and given and given != known and function.get("name")):
            if len(self.tool_calls) == MAX_CALLS:
                message = f"{self.model} sent more than {MAX_CALLS} tool calls"
                raise StreamBrokenError(message)
            called, known = {"name": "", "arguments": ""}, None
            # The id is ours: a model may have written the other one. Nine characters suit all servers.
            call = {"id": token_hex(5)[:9], "type": "function", "function": called}
            self.tool_calls.append(call)
        self._calls[at] = call, known or given  # later ids are of a piece, and not of the call
        call["function"]["name"] += function.get("name") or ""
        call["function"]["arguments"] += function.get("arguments") or ""
        if len(call["function"]["arguments"]) + len(call["function"]["name"]) > MAX_ARGUMENTS:
            message = f"{self.model} sent a tool call of more than {MAX_ARGUMENTS:,} characters"
            raise StreamBrokenError(message)

    async def _refused(self, response: aiohttp.ClientResponse) -> BackendError:
        """The error for an answer that is none."""
        said = (await response.content.read(4096)).decode("utf-8", "replace")
        try:
            said = json.loads(said)["error"]["message"]
        except (ValueError, KeyError, TypeError, RecursionError):
            said = said.strip().splitlines()[0] if said.strip() else response.reason or ""
        why = f"{response.status}: {self._shown(said)}"
        match response.status:
            case 401 | 403:
                return AuthenticationError(f"{self.model} refused the gateway's key: {why}")
            case 404:
                return UnknownModelError(f"{self.model} is not known to its provider: {why}")
            case 429:
                error = RateLimitError(f"{self.model} asks for fewer requests: {why}")
                error.retry_after = seconds_in(response.headers.get("Retry-After"))
                return error
            case 400 | 413 | 422 if self._for_client and self._attempts == 1:
                return RefusedRequestError(f"the upstream refused the request: {why}")
            case 400 | 413 | 422:  # what it says may quote an answer that was not judged
                return BackendError(f"{self.model} refused the request: {response.status}")
        return BackendError(f"{self.model} failed: {why}")

    def _broken(self, error: Exception, *, answered: bool) -> BackendError:
        why = type(error).__name__  # what was read from the wire may be in its words
        if isinstance(error, (aiohttp.ClientConnectorError, OSError)):
            why = self._shown(error) or why
        if answered:
            return StreamBrokenError(f"{self.model} broke off in mid-stream: {why}")
        return ConnectionFailedError(f"{self.model} does not answer: {why}")

    def _shown(self, said: object) -> str:
        return without_secrets(str(said), {"api_key": self._upstream.api_key or ""})[:SHOWN]


def options_for(completion: Literal["chat", "text"], given: Mapping[str, Any]) -> dict[str, Any]:
    """A client's options under the names that an endpoint's kind of completion has for them.

    Example:
        >>> options_for("text", {"logprobs": True, "top_logprobs": 2, "max_completion_tokens": 9})
        {'logprobs': 1, 'max_tokens': 9}
        >>> options_for("chat", {"logprobs": 5})
        {'logprobs': True}
    """
    options = dict(given)
    wanted = options.get("logprobs")
    if completion == "chat":
        if type(wanted) is int:
            options["logprobs"] = True
        return options
    options.pop("top_logprobs", None)
    if wanted is True:
        options["logprobs"] = 1
    elif wanted is False:
        del options["logprobs"]
    if "max_completion_tokens" in options:
        options["max_tokens"] = options.pop("max_completion_tokens")
    return options


def merged(raw: Sequence[Mapping[str, Any]], messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The client's messages as they came, with what a repair has changed in their text.

    Example:
        >>> from streamval.types.context import Message
        >>> merged([{"role": "user", "content": "Hi", "name": "Ann"}], [Message("user", "Hi. Again.")])
        [{'role': 'user', 'content': 'Hi. Again.', 'name': 'Ann'}]
    """
    made: list[dict[str, Any]] = []
    for at, message in enumerate(messages):
        if at >= len(raw):
            made.append({"role": message.role, "content": message.content})
            continue
        given, said = dict(raw[at]), raw[at].get("content")
        if text_of(said) != message.content:
            given["content"] = message.content
            if isinstance(said, list):  # with its pictures
                others = [part for part in said if "text" not in part]
                given["content"] = [{"type": "text", "text": message.content}, *others]
        made.append(given)
    return made


def _logprobs(said: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Tokens with their log probabilities, of a chat or of a text completion."""
    if said.get("tokens"):
        yield from zip(said["tokens"], said["token_logprobs"], strict=True)
    for entry in said.get("content") or ():
        yield entry["token"], entry["logprob"]


def _usage(reported: Any) -> Usage | None:
    if not isinstance(reported, dict):
        return None
    written, read = reported.get("completion_tokens"), reported.get("prompt_tokens")
    if type(written) is not int or not 0 < written <= MAX_TOKENS:
        return None
    known = type(read) is int and 0 <= read <= MAX_TOKENS
    return Usage(read if known else None, written, source="backend")
