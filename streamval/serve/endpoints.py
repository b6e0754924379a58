"""The models behind the gateway: endpoints of OpenAI's shape, the embedded model, LiteLLM's providers.

Each is an `Endpoint` for as long as the gateway runs, and makes a backend for each request: for an endpoint of
OpenAI's shape, a `Relay`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import aiohttp

from streamval.aio.breaker import Breaker
from streamval.backends.base import Backend
from streamval.backends.options import SAMPLING
from streamval.errors import BackendError, ConnectionFailedError, RequestError
from streamval.serve.native import MessagesRelay, ResponsesRelay
from streamval.serve.upstream import MAX_ANSWER, OpenAIRelay, Relay, Upstream, proxy_for
from streamval.wire.completions import CompletionRequest
from streamval.wire.sse import MEDIA_TYPE

CONNECT_SECONDS = 10.0


class Endpoint(ABC):
    """An upstream of the file, for as long as the gateway runs."""

    @abstractmethod
    def relay(self, request: CompletionRequest, *, judged: bool = True) -> Backend:
        """Return a backend for one request; `judged` says whether its model has rules.

        Raises:
            RequestError: If this upstream cannot serve it.
        """

    @abstractmethod
    def judge(self) -> Backend:
        """Return a backend for judges."""

    async def prepare(self) -> None:
        """Load what is needed before the first request."""

    async def aclose(self) -> None:
        """Close connections."""


def endpoint_of(upstream: Upstream) -> Endpoint:
    """Return the endpoint for an upstream of the file."""
    if upstream.model == "local":
        return _Embedded(upstream)
    if upstream.is_relayed:
        return OpenAIEndpoint(upstream)
    return _ByLiteLLM(upstream)


_PATHS = {
    "chat": "/chat/completions",
    "text": "/completions",
    "responses": "/responses",
    "messages": "/messages",
}
_RELAYS = {
    "chat": OpenAIRelay,
    "text": OpenAIRelay,
    "responses": ResponsesRelay,
    "messages": MessagesRelay,
}


class OpenAIEndpoint(Endpoint):
    """An endpoint of OpenAI's shape, and the connections to it."""

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        provider, _, self.model = upstream.model.partition("/")
        self.base = (upstream.api_base or f"https://api.{provider}.com/v1").rstrip("/")
        self.url = self.base + _PATHS[upstream.completion]
        self._relay = _RELAYS[upstream.completion]
        self._session: aiohttp.ClientSession | None = None
        self._breaker = Breaker()

    @property
    def session(self) -> aiohttp.ClientSession:
        """The connections, opened on the running loop when they are first needed."""
        if self._session is None or self._session.closed:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
            # Not compressed: a few bytes could become very many.
            headers = {"Accept": MEDIA_TYPE, "Accept-Encoding": "identity", **self.upstream.headers}
            if self.upstream.api_key and self.upstream.completion == "messages":
                headers["x-api-key"] = self.upstream.api_key
            elif self.upstream.api_key:
                headers["Authorization"] = f"Bearer {self.upstream.api_key}"
            connector = aiohttp.TCPConnector(limit=0)  # the gateway has its own limit
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=timeout,
                headers=headers,
                read_bufsize=2**18,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),  # share no cookies between clients
            )
        return self._session

    def relay(self, request: CompletionRequest, *, judged: bool = True) -> Relay:
        """Return a backend that sends one request as it came."""
        if request.options.get("tools") and self.upstream.completion == "text":
            raise RequestError(
                "this model's upstream writes text completions, which have no tools", param="tools"
            )
        relay = self._relay(self.upstream, self.url, self.session, request, judged=judged)
        relay.check(request)
        relay.breaker = self._breaker
        return relay

    def judge(self) -> Backend:
        """Return the same endpoint, for questions of our own."""
        judge = self._relay(self.upstream, self.url, self.session)
        judge.breaker = self._breaker
        return judge

    async def forward(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        """Send a request that nothing judges; return the status and the body of the answer.

        Raises:
            BackendError: If the upstream does not answer with JSON of a bounded size.
        """
        url = self.base + path
        sent = {**headers, "Content-Type": "application/json", "Accept": "application/json"}
        try:
            async with self.session.post(
                url, data=body, headers=sent, proxy=proxy_for(url), allow_redirects=False
            ) as answer:
                said = await answer.content.read(MAX_ANSWER)
                if answer.content_type != "application/json" or not answer.content.at_eof():
                    raise BackendError(f"{self.model} answered with {answer.content_type}")
                return answer.status, said
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ConnectionFailedError(
                f"{self.model} does not answer: {type(error).__name__}"
            ) from None

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()


_TO_A_PROVIDER = frozenset(
    {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"}
)
"""Options about OpenAI's service, which do not affect the answer."""


def known_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a client's options that shape an answer, by the names of other backends.

    Only those: other options could redirect such a backend, or change its credentials (`api_base`, `api_key`,
    `extra_headers`), which a client must not do.

    Raises:
        RequestError: If there is another one.

    Example:
        >>> known_options({"user": "Ann", "max_completion_tokens": 9})
        {'max_tokens': 9}
    """
    known = {}
    for name, value in options.items():
        if name in SAMPLING:
            known["max_tokens" if name == "max_completion_tokens" else name] = value
        elif name not in _TO_A_PROVIDER and name != "response_format":
            raise RequestError(f"this model takes no {name!r}", param=name)
    return known


class _Embedded(Endpoint):
    """The embedded model: it answers a chat, and continues a text."""

    def __init__(self, upstream: Upstream) -> None:
        from streamval.backends.local import LocalBackend  # an optional extra

        # Without a cache of prompts: the time of an answer would show which prompts came before it.
        options: dict[str, Any] = {"cache_prompt": False, **upstream.defaults}
        self._chat = LocalBackend(chat=True, **options)
        self._text = LocalBackend(chat=False, **options)

    async def prepare(self) -> None:
        with suppress(BackendError):  # a request will say why
            await self._chat.address()

    def relay(self, request: CompletionRequest, *, judged: bool = True) -> Backend:
        if request.options.get("tools"):
            raise RequestError("the embedded model has no tools", param="tools")
        return self._text if request.kind == "text" else self._chat

    def judge(self) -> Backend:
        return self._text


class _ByLiteLLM(Endpoint):
    """Any provider, by LiteLLM's package."""

    def __init__(self, upstream: Upstream) -> None:
        from streamval.backends.litellm import LiteLLMBackend  # slow to import

        given = {"api_base": upstream.api_base, "api_key": upstream.api_key}
        params: Any = {name: value for name, value in given.items() if value is not None}
        self._backend = LiteLLMBackend(upstream.model, **params, **upstream.defaults)

    def relay(self, request: CompletionRequest, *, judged: bool = True) -> Backend:
        if request.options.get("tools"):
            raise RequestError("tools are served for `openai/` upstreams only", param="tools")
        return self._backend

    def judge(self) -> Backend:
        return self._backend
