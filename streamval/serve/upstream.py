"""An upstream model, and the relay of one request: the client's request goes up, deltas come down.

No provider's package is used: a frame then costs a tenth, and the request is passed on with all fields,
also fields that no package knows.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from math import isfinite
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from pydantic import BaseModel, ConfigDict, Field, model_validator

from streamval.backends.base import Backend, GenerationRequest
from streamval.backends.continuing import continued
from streamval.backends.openai import as_prompt, check_prompt
from streamval.backends.secrets import without_secrets
from streamval.errors import (
    BackendError,
    ConnectionFailedError,
    RateLimitError,
    RefusedRequestError,
    RequestError,
    StreamBrokenError,
)
from streamval.types.deltas import MAX_REFUSAL, Delta
from streamval.wire.answers import TokenLogprob
from streamval.wire.completions import (
    CompletionReader,
    CompletionRequest,
    first_choice,
    read_logprobs,
    text_alone,
)
from streamval.wire.errors import answer_in, error_class, message_in, server_error
from streamval.wire.parts import read_json
from streamval.wire.sse import MEDIA_TYPE, FrameReader

SHOWN = 300
"""Characters of a server's message that an error repeats."""

MAX_ANSWER = 64 * 1024 * 1024
"""Bytes of the longest answer, including the frames around its text."""

END_SECONDS = 0.25
"""Seconds to wait for the end of a connection after the last frame."""

TOKENS = ("max_tokens", "max_completion_tokens")
"""The names of the limit of an answer's tokens. A limit of one is a limit of the other."""

MAX_LOGPROBS, MAX_ANNOTATIONS = 100_000, 1000
"""Tokens that wait to be sent, and annotations of an answer, at most."""

IMPOSSIBLE = -9999.0
"""The log probability of an impossible token, as in OpenAI's reference."""


class Upstream(BaseModel):
    """A model behind the gateway.

    Attributes:
        model: ``local`` for the embedded one, ``openai/NAME`` for an endpoint of OpenAI's shape, ``anthropic/NAME``
            with ``completion: messages`` for one of Anthropic's, else a LiteLLM name.
        api_base: Where the endpoint is, with its ``/v1``.
        api_key: Its key.
        completion: The protocol in which an endpoint is asked: ``chat`` or ``text`` completions, ``responses``, or
            Anthropic's ``messages``. A request that a client sends in the same protocol goes there as it is.
        continues: How a chat's server continues the assistant's last message; see `OpenAIBackend`.
        options: Options of every request; a client's options override them. ``{at_most: N}`` limits what a
            client may ask for, and ``{always: V}`` replaces it.
        headers: Headers of every request to an ``openai/`` endpoint.
        stall_timeout: Seconds without a delta before the upstream counts as broken.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: Annotated[str, Field(pattern=r"^[^/\s]+(/[^\s]+)?$")]
    api_base: Annotated[str, Field(pattern=r"^https?://[^\s]+$")] | None = None
    api_key: Annotated[str, Field(pattern=r"^[!-~]+$")] | None = Field(default=None, repr=False)
    completion: Literal["chat", "text", "responses", "messages"] = "chat"
    continues: Literal["message", "flag", "vllm"] | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    headers: dict[str, Annotated[str, Field(pattern=r"^[ -~]*$")]] = Field(
        default_factory=dict, repr=False
    )
    stall_timeout: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = 120.0

    @model_validator(mode="after")
    def _is_whole(self) -> Upstream:
        if self.model == "local" and (self.api_base or self.api_key or self.continues):
            raise ValueError("the embedded model has no api_base, api_key or continues")
        if self.api_base is not None:
            self._check_base(urlsplit(self.api_base).path.rstrip("/"))
        if self.headers and not self.is_relayed:
            raise ValueError("headers are sent to `openai/` upstreams only")
        if self.completion == "responses" and self.continues is not None:
            raise ValueError("Responses never continue an answer: leave out `continues`")
        return self

    @property
    def is_relayed(self) -> bool:
        """Whether requests go straight to an endpoint, and not through LiteLLM."""
        return self.model.startswith("openai/") or (
            self.completion == "messages" and self.model.startswith("anthropic/")
        )

    def _check_base(self, path: str) -> None:
        """Refuse an address that no request could reach."""
        if "/" not in self.model:
            raise ValueError(f"an endpoint of OpenAI's shape is written `openai/{self.model}`")
        if not self.is_relayed:
            return
        if not path:
            raise ValueError("api_base has no path: most servers expect it to end in `/v1`")
        for ending in ("/completions", "/responses", "/messages", "/embeddings"):
            if path.endswith(ending):
                raise ValueError(
                    f"api_base ends before the name of the endpoint: leave out `{ending}`"
                )

    @property
    def defaults(self) -> dict[str, Any]:
        """The options of a request whose client gives none."""
        return {name: _default(value) for name, value in self.options.items()}

    def limited(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return a client's options within the file's limits.

        Raises:
            RequestError: If a limited option is no number.

        Example:
            >>> careful = Upstream(model="openai/m", options={"max_tokens": {"at_most": 9}, "seed": {"always": 1}})
            >>> careful.limited({"max_completion_tokens": 50, "seed": 7, "top_p": 0.5})
            {'max_completion_tokens': 9, 'top_p': 0.5}
        """
        options = dict(given)
        for option, rule in self.options.items():
            for name in TOKENS if option in TOKENS else (option,):
                if name not in options or not _is_rule(rule):
                    continue
                if "always" in rule:
                    del options[name]  # the default takes its place
                else:
                    options[name] = _at_most(name, options[name], rule["at_most"])
        return options

    @property
    def can_continue(self) -> bool:
        """Whether a repair can continue from the last good chunk."""
        if self.model == "local" or self.continues is not None:
            return True
        if self.model.startswith("text-completion"):  # LiteLLM's names of text completions
            return True
        return self.is_relayed and self.completion == "text"


def _is_rule(value: object) -> bool:
    return isinstance(value, Mapping) and set(value) in ({"at_most"}, {"always"})


def _default(value: Any) -> Any:
    return next(iter(value.values())) if _is_rule(value) else value


def _at_most(name: str, value: Any, limit: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise RequestError(f"{name} must be a number", param=name)
    return min(value, limit)


class Relay(Backend):
    """The upstream of one request: a backend that also keeps log probabilities.

    Attributes:
        logprobs: The log probabilities of tokens that are not released yet.
        marks: The id and the marks of the upstream's first frame.
        refusal: The words with which the model refused to answer.
        annotations: What the upstream says about its text.
        opaque: Blocks of signed or encrypted reasoning that have come, and are not sent.
    """

    options_hold_keys = False  # they are a client's

    def __init__(self, *, judged: bool = True) -> None:
        self._judged = judged
        self.annotations: list[dict[str, Any]] = []
        self.opaque: list[Mapping[str, Any]] = []
        self.logprobs: deque[TokenLogprob] = deque()
        self.marks: dict[str, Any] = {}
        self.refusal = ""

    def take_logprobs(self, text: str, end: int) -> list[TokenLogprob]:
        """Take the log probabilities up to an offset; return those whose tokens match the text."""
        start = end - len(text)
        taken = []
        while self.logprobs and self.logprobs[0].end <= end:
            known = self.logprobs.popleft()
            if known.end > start and text.endswith(known.token, 0, known.end - start):
                taken.append(known)
        return taken


class OpenAIRelay(Relay):
    """Relays one request to an endpoint of OpenAI's shape.

    Args:
        upstream: As the file describes it.
        url: Its address.
        session: The connections to it.
        asked: The client's request; `None` for a judge, who needs the text alone.
        judged: Whether the model has rules.
    """

    ends_itself: ClassVar[bool] = False
    """Whether the last frame is known by its content, and not by ``[DONE]``."""

    def __init__(
        self,
        upstream: Upstream,
        url: str,
        session: aiohttp.ClientSession,
        asked: CompletionRequest | None = None,
        *,
        judged: bool = True,
    ) -> None:
        super().__init__(judged=judged)
        self._upstream, self._url, self._session = upstream, url, session
        self._headers = {"Content-Type": "application/json"}
        if asked is not None:
            self._headers |= self._passed_on(asked.headers)
        self._asked, self._for_client = asked, asked is not None
        self._is_plain = True
        self._begin_at(0)
        self.model = upstream.model.partition("/")[2]
        self.supports_prefix = upstream.can_continue

    def check(self, asked: CompletionRequest) -> None:
        """Refuse a client's request that this upstream cannot take.

        Raises:
            UsageError: It names what.
        """

    def check_request(self, request: GenerationRequest) -> None:
        """Refuse what a text completion cannot send."""
        if self._upstream.completion == "text":
            check_prompt(request, self.model)

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Delta]:
        """Generate; closing closes the connection."""
        self._begin_at(len(request.prefix or ""))
        turns = () if self._asked is None else self._asked.turns
        self._is_plain = request.prefix is None and request.messages == turns
        response: aiohttp.ClientResponse | None = None
        done, size, deltas_in = False, 0, self._new_reader()
        try:
            body = self._body(request)
            # A redirect would send our key and the client's text to another server.
            response = await self._session.post(
                self._url,
                data=BytesIO(json.dumps(body, allow_nan=False).encode()),  # sent in parts
                headers=self._headers,
                proxy=proxy_for(self._url),
                allow_redirects=False,
            )
            await self._check(response, MEDIA_TYPE if body["stream"] else "application/json")
            reader = FrameReader() if body["stream"] else _Whole(response.content)
            async for piece in response.content.iter_any():
                for data in reader.feed(piece):
                    done = done or data == b"[DONE]"
                    if done:
                        break
                    size += len(data)
                    if size > MAX_ANSWER:
                        raise _TooLongError(
                            f"{self.model} sent an answer of more than {MAX_ANSWER:,} bytes"
                        )
                    for delta in self._deltas(data, deltas_in):
                        yield delta
                    done = self.ends_itself and deltas_in.ended
                if done:
                    break
            if not deltas_in.ended:
                raise StreamBrokenError(
                    f"{self.model} broke off: its stream ended without a finish reason"
                )
            with suppress(TimeoutError):  # a connection that is read to its end can be used again
                async with asyncio.timeout(END_SECONDS):
                    await response.content.readany()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._broken(error, answered=response is not None) from None
        finally:
            if response is not None:
                response.close()

    async def _check(self, response: aiohttp.ClientResponse, wanted: str) -> None:
        """Raise the upstream's error, if the response is not of the type that is wanted."""
        if response.status != 200:
            raise await self._refused(response)
        kind = response.content_type
        if kind != wanted:
            raise StreamBrokenError(
                f"{self.model} answered with {kind}, which is not a stream; check api_base"
            )
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise StreamBrokenError(
                f"{self.model} sent a compressed stream, which it was not asked for"
            )

    def _new_reader(self) -> Any:
        return CompletionReader()

    def _passed_on(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in headers.items() if not name.startswith("anthropic-")}

    def _body(self, request: GenerationRequest) -> dict[str, Any]:
        body = {
            **options_for(self._upstream.completion, self._options_of(request)),
            "model": self.model,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self._upstream.completion == "text":
            if body.get("best_of", 1) != 1:  # the best is known at the end
                body |= {"stream": False, "stream_options": None}
            return body | {"prompt": as_prompt(request, self.model)}
        messages = [message.as_dict() for message in request.messages]
        if request.prefix:
            way = self._upstream.continues or "message"
            body |= continued(messages, request.prefix, way)
        return body | {"messages": messages}

    def _options_of(self, request: GenerationRequest) -> dict[str, Any]:
        """Return a request's options within the file's limits, and those of the file that a client has not given."""
        given, own = self._upstream.limited(request.options), self._upstream.defaults
        if any(name in given for name in TOKENS):
            own = {name: value for name, value in own.items() if name not in TOKENS}
        return {**own, **given}

    def _begin_at(self, offset: int) -> None:
        """Drop what is known of an earlier attempt."""
        self.refusal, self.annotations, self.opaque = "", [], []
        self.logprobs = deque()
        self._at, self._half = offset, False  # end of the text; inside a surrogate pair?

    def _deltas(self, data: bytes, reader: Any) -> Sequence[str | Delta]:
        try:
            frame = read_json(data)
            if frame.get("error") and frame.get("type") != "response.failed":
                said = frame["error"]
                said = said.get("message", said) if isinstance(said, dict) else said
                raise StreamBrokenError(f"{self.model} broke off: {self._shown(said)}")
            if self.marks and (alone := text_alone(frame)):
                self._move_behind(alone)
                return [alone]
            deltas = self._read(frame, reader)
            if self._for_client:
                self._note(frame, deltas)
        except (
            ArithmeticError,
            ValueError,
            AttributeError,
            TypeError,
            KeyError,
            RecursionError,
        ) as error:
            raise StreamBrokenError(
                f"{self.model} sent a frame that is not in OpenAI's format: {self._shown(error)}"
            ) from None
        return deltas

    def _note(self, frame: Any, deltas: list[Delta]) -> None:
        """Note what is not judged, and goes to the client."""
        self.marks = self.marks or marks_in(frame)
        self._note_refusal(deltas)
        choice = first_choice(frame) or {}
        self._add_logprobs(deltas[0].text, choice)
        self._annotate(choice.get("delta") or {})

    def _note_refusal(self, deltas: list[Delta]) -> None:
        for delta in deltas:
            if delta.refusal:
                self.refusal += delta.refusal[: MAX_REFUSAL - len(self.refusal)]

    def _read(self, frame: Any, reader: Any) -> list[Delta]:
        try:
            deltas: list[Delta] = reader.read(frame)
        except StreamBrokenError as error:
            raise StreamBrokenError(f"{self.model} broke off: {self._shown(error)}") from None
        return deltas

    def _annotate(self, message: Mapping[str, Any]) -> None:
        given = message.get("annotations")
        if isinstance(given, list):
            found = [one for one in given if isinstance(one, dict)]
            self.annotations += found[: MAX_ANNOTATIONS - len(self.annotations)]

    def _add_logprobs(self, text: str, choice: Mapping[str, Any]) -> None:
        """Note where the tokens of a delta end."""
        at = self._at - self._joins(text)
        for token, logprob, others in read_logprobs(choice):
            at += len(token)
            if logprob is not None:  # it may be missing for the first token of a text
                known = float(logprob)  # JSON has no infinity; OpenAI writes -9999.0
                finite = known if isfinite(known) else IMPOSSIBLE
                seen = () if self._judged else others  # other tokens are not judged
                self.logprobs.append(TokenLogprob(at, str(token), finite, seen))
        if len(self.logprobs) > MAX_LOGPROBS:
            raise StreamBrokenError(f"{self.model} sent log probabilities without text")
        self._move_behind(text)

    def _move_behind(self, text: str) -> None:
        """Move the end of the text behind a delta. A character may be split between two deltas."""
        self._at += len(text) - self._joins(text)
        if text:
            self._half = "\ud800" <= text[-1] <= "\udbff"

    def _joins(self, text: str) -> bool:
        """Return whether a delta begins with the other half of a character."""
        return self._half and "\udc00" <= text[:1] <= "\udfff"

    async def _refused(self, response: aiohttp.ClientResponse) -> BackendError:
        """Return the error for an answer with a status that is not 200."""
        body = (await response.content.read(4096)).decode("utf-8", "replace")
        why = f"{response.status}: {self._shown(message_in(body) or response.reason)}"
        error = self._error_of(response, why)
        # Of a request with more than the client's messages, a refusal may quote an answer that was not judged.
        if self._for_client and self._is_plain and response.status >= 400:
            error.answer = answer_in(
                response.status, self._shown(body, len(body)), response.headers
            )
        return error

    def _error_of(self, response: aiohttp.ClientResponse, why: str) -> BackendError:
        kind = error_class(response.status)
        problem = "asks for fewer requests" if kind is RateLimitError else "failed"
        if kind is RefusedRequestError:
            if self._for_client and self._is_plain:
                return RefusedRequestError(f"the upstream refused the request: {why}")
            return BackendError(f"{self.model} refused the request: {response.status}")
        return server_error(response.status, f"{self.model} {problem}: {why}", response.headers)

    def _broken(self, error: Exception, *, answered: bool) -> BackendError:
        why = type(error).__name__  # its message may quote the wire
        if isinstance(error, (aiohttp.ClientConnectorError, OSError)):
            why = self._shown(error) or why
        if answered:
            return StreamBrokenError(f"{self.model} broke off in mid-stream: {why}")
        return ConnectionFailedError(f"{self.model} does not answer: {why}")

    def _shown(self, said: object, most: int = SHOWN) -> str:
        return without_secrets(str(said), {"api_key": self._upstream.api_key or ""})[:most]


class _TooLongError(StreamBrokenError):
    """An answer without end: it would not end the next time."""

    may_resume = False


class _Whole:
    """Returns an answer that is not streamed once it has come, as one frame."""

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content, self._pieces = content, bytearray()

    def feed(self, piece: bytes) -> list[bytes]:
        """Take the next bytes."""
        self._pieces += piece
        if len(self._pieces) > MAX_ANSWER:
            raise _TooLongError(f"an answer of more than {MAX_ANSWER:,} bytes")
        return [bytes(self._pieces)] if self._content.at_eof() else []


_MARK = re.compile(r"[\w.:-]{1,128}")


def marks_in(frame: Mapping[str, Any]) -> dict[str, Any]:
    """Return the id and the marks of a frame. They are not judged, so a mark has no spaces.

    Example:
        >>> marks_in({"id": "chatcmpl-1", "system_fingerprint": "fp_1", "service_tier": "say it", "created": 7})
        {'id': 'chatcmpl-1', 'system_fingerprint': 'fp_1', 'created': 7}
    """
    marks: dict[str, Any] = {}
    for name in ("id", "system_fingerprint", "service_tier"):
        value = frame.get(name)
        if isinstance(value, str) and _MARK.fullmatch(value):
            marks[name] = value
    created = frame.get("created", frame.get("created_at"))
    if type(created) is int:
        marks["created"] = created
    return marks


def proxy_for(url: str) -> str | None:
    """Return the proxy that the environment names for an address (``HTTPS_PROXY``, ``NO_PROXY``, …).

    Not by aiohttp's own `trust_env`, which also takes passwords from ``~/.netrc``.

    Example:
        >>> proxy_for("http://127.0.0.1:8000/v1")
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in ("127.0.0.1", "::1", "localhost") or proxy_bypass(host):
        return None
    return getproxies().get(parts.scheme)


def options_for(completion: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a client's options by the names of an endpoint's kind of completion.

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
