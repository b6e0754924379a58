"""`OpenAIBackend`: any endpoint of OpenAI's shape, through the `openai` package and nothing else."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from streamval.backends.base import Backend, GenerationRequest
from streamval.backends.continuing import Continues, continued
from streamval.backends.options import SAMPLING, check_options
from streamval.backends.provider import broken_off, close, no_key, provider_error
from streamval.backends.tags import check_tags
from streamval.errors import AuthenticationError, BackendError, UsageError
from streamval.structured.json_schema.schema import schema_of
from streamval.types.deltas import Delta
from streamval.types.messages import refuse_what_is_not_text
from streamval.wire.completions import CompletionReader
from streamval.wire.errors import message_in
from streamval.wire.openai_responses import ResponsesReader, input_items, responses_body
from streamval.wire.parts import read_json
from streamval.wire.sse import FrameReader

if TYPE_CHECKING:
    from openai import AsyncOpenAI

API: TypeAlias = Literal["chat", "text", "responses"]
"""The protocols of OpenAI: chat completions, text completions, Responses."""


class OpenAIBackend(Backend):
    """A model behind an endpoint of OpenAI's shape: OpenAI, vLLM, llama.cpp, Ollama and others.

    Closing the stream closes the connection, at which a server stops generating.

    Args:
        model: The model's name, as the server knows it.
        base_url: Where the server is, with its ``/v1``. By default `$OPENAI_BASE_URL`, else OpenAI.
        api_key: The key. By default `$OPENAI_API_KEY`; optional with a `base_url`.
        client: Your own `openai.AsyncOpenAI`, instead of `base_url` and `api_key`. It is never closed, and
            keeps its connections; without it, each generation makes a new client.
        api: `"chat"` for chat completions, `"text"` for text completions, `"responses"` for Responses.
        continues: How a chat's server continues the assistant's last message, where it can:
            `"message"` as it is (llama.cpp, Ollama, Anthropic, OpenRouter), `"flag"` if it has
            ``"prefix": true`` (Mistral, DeepSeek), `"vllm"` by `continue_final_message`. Text
            completions always continue, and Responses never.
        reasoning_tags: The tags between which the model writes its reasoning in the text. With them, and a
            server that continues, a repair can keep reasoning. The first is empty where the prompt ends with it.
        **params: Defaults for each generation: `temperature`, `seed`, `max_tokens`, … Options that the
            `openai` package does not know are sent in the body. `organization`, `project`,
            `max_retries` (by default 0) and `default_headers` configure the client, `timeout` each request.

    Raises:
        UsageError: If `model` is empty, `api` is unknown, a name is misspelt, or `client`
            is combined with arguments of a new client.

    Example:
        >>> OpenAIBackend("qwen3", base_url="http://localhost:8000/v1", api_key="none")
        OpenAIBackend('qwen3')
    """

    model_shown: str
    """The model's name in errors."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        client: AsyncOpenAI | None = None,
        api: API = "chat",
        continues: Continues | None = None,
        reasoning_tags: tuple[str, str] | None = None,
        **params: Any,
    ) -> None:
        if not isinstance(model, str) or not model.strip():
            raise UsageError("OpenAIBackend needs a model name, such as 'gpt-4o-mini'")
        if api not in ("chat", "text", "responses"):
            raise UsageError(f"api must be 'chat', 'text' or 'responses', not {api!r}")
        if continues not in (None, "message", "flag", "vllm"):
            raise UsageError(f"continues must be 'message', 'flag' or 'vllm', not {continues!r}")
        check_options(params)
        made_of = {"base_url": base_url, "api_key": api_key}
        if base_url is not None and not os.environ.get("OPENAI_API_KEY"):
            made_of["api_key"] = api_key or "none"  # a self-hosted server usually needs no key
        made_of |= {name: params.pop(name) for name in _CLIENT if name in params}
        self._made_of = {name: value for name, value in made_of.items() if value is not None}
        if client is not None and self._made_of:
            raise UsageError(
                f"client= has its own {', '.join(self._made_of)}: give one or the other"
            )
        self.model = self.model_shown = model
        self.options = MappingProxyType(
            {name: value for name, value in params.items() if name in SAMPLING}
        )
        self._params = {name: value for name, value in params.items() if name not in SAMPLING}
        self._client = client
        self._api = api
        self._continues: Continues = continues or "message"
        self._reasoning_field = "reasoning_content"
        self.supports_prefix = api == "text" or (api == "chat" and continues is not None)
        self.reasoning_tags = check_tags(reasoning_tags)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Reject `n` above 1, and misspelt option names."""
        check_options(options)

    def check_request(self, request: GenerationRequest) -> None:
        """Refuse what this endpoint cannot send."""
        if self._api == "text":
            check_prompt(request, self.model_shown)
        elif self._api == "responses":
            input_items(request.messages)

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Delta]:
        """Generate the output. Closing the stream closes the connection."""
        params = {**self._params, **request.options}
        made_of = {**self._made_of, **{n: params.pop(n) for n in _CLIENT if n in params}}
        if (base := params.pop("api_base", None)) is not None:  # LiteLLM's name for it
            made_of["base_url"] = base
        if self._client is not None and made_of:
            raise UsageError(f"client= has its own {', '.join(made_of)}: give one or the other")
        client: Any = None
        response: Any = None
        started = False
        reader = ResponsesReader() if self._api == "responses" else CompletionReader()
        problem: BackendError | None = None
        try:
            client = self._client or self._new_client(made_of)
            response = await self._open(client, request, params)
            async for piece in _frames(response):
                started = True
                for delta in reader.read(piece):
                    yield delta
            if isinstance(reader, CompletionReader):
                self._reasoning_field = reader.reasoning_field
            if not reader.ended:
                problem = broken_off(self.model_shown, response.response)
        except AuthenticationError as error:  # there is no key
            problem = error
        except Exception as error:  # whatever it is, it ends this stream
            problem = provider_error(
                *(error, self.model_shown, request, made_of, self._params, _keys_of(client)),
                started=started,
                answered=response is not None or hasattr(error, "status_code"),
            )
        finally:
            await close([response, client if client is not self._client else None])
        if problem is not None:  # outside of `except`, so that it keeps no other exception
            raise problem

    def _new_client(self, options: Mapping[str, Any]) -> AsyncOpenAI:
        import openai  # takes a while: only when something is generated

        if not options.get("api_key") and not os.environ.get("OPENAI_API_KEY"):
            raise no_key(self.model_shown, "OPENAI_API_KEY")
        return openai.AsyncOpenAI(**{"max_retries": 0, **options})

    async def _open(
        self, client: AsyncOpenAI, request: GenerationRequest, params: dict[str, Any]
    ) -> Any:
        params = {"model": self.model, **params}
        create: Any
        if self._api == "responses":
            create = client.responses.create
            params = self._for_responses(request, params)
        else:
            params = {"stream_options": {"include_usage": True}, **params}
            if self._api == "text":
                create = client.completions.create
                params["prompt"] = as_prompt(request, self.model_shown)
            else:
                create = client.chat.completions.create
                params["messages"], more = as_chat(request, self._continues, self._reasoning_field)
                params.update(more)
                params.update(tool_options(request))
                if request.format is not None:
                    params["response_format"] = response_format(request.format)
        known = inspect.signature(create).parameters
        own = {name: params.pop(name) for name in list(params) if name not in known}
        params["extra_body"] = {**own, **(params.get("extra_body") or {})} or None
        return await create(stream=True, **params)

    def _for_responses(self, request: GenerationRequest, params: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a request for Responses, which stores nothing and gets all reasoning back."""
        wanted = None if request.format is None else response_format(request.format)
        asked = {"tools": request.tools, "tool_choice": request.tool_choice}
        return responses_body(request.messages, {**params, **asked, "response_format": wanted})


async def _frames(stream: Any) -> AsyncIterator[Any]:
    """Yield the frames of an SDK's stream, as dictionaries.

    The SDK's own reader drops a frame behind a byte order mark, and makes an object of each frame.
    A wrapper of the SDK may give its stream in a shape of its own, which is read as it comes.
    """
    response: Any = getattr(stream, "response", None)
    if not hasattr(response, "aiter_bytes"):
        async for piece in stream:
            yield piece
        return
    reader = FrameReader()
    async for piece in response.aiter_bytes():
        for data in reader.feed(piece):
            if data.startswith(b"[DONE]"):
                return
            frame = read_json(data)
            if isinstance(frame, dict) and frame.get("error"):
                raise BackendError(message_in(data.decode(errors="replace")))
            yield frame


_CLIENT = ("base_url", "api_key", "organization", "project", "max_retries", "default_headers")


def _keys_of(client: AsyncOpenAI | None) -> dict[str, Any]:
    """Return the keys that a client sends, including those from the environment."""
    if client is None:
        return {}
    return {"api_key": client.api_key, "headers": dict(client.default_headers)}


def as_chat(
    request: GenerationRequest, way: Continues, reasoning_field: str = "reasoning_content"
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return a request's messages, with a prefix as the assistant's last, and extra fields for the body.

    Args:
        request: The request.
        way: How the server continues a prefix.
        reasoning_field: The field in which the server expects reasoning back.
    """
    messages = [message.as_dict() for message in request.messages]
    for message in messages:
        if reasoning_field != "reasoning_content" and "reasoning_content" in message:
            message[reasoning_field] = message.pop("reasoning_content")
    return messages, continued(messages, request.prefix, way) if request.prefix else {}


def check_prompt(request: GenerationRequest, model: str) -> None:
    """Refuse what a text completion cannot send.

    Raises:
        UsageError: If the request has tools, or a message that is more than text.
    """
    refuse_what_is_not_text(request.messages, f"the text completion {model}")
    if request.tools or request.options.get("tools"):
        raise UsageError(f"the text completion {model} cannot call tools; use chat completions")


def as_prompt(request: GenerationRequest, model: str) -> str:
    """Return a request as the prompt of a text completion.

    Raises:
        UsageError: As `check_prompt`.
    """
    check_prompt(request, model)
    return "\n\n".join(message.content for message in request.messages) + (request.prefix or "")


def tool_options(request: GenerationRequest) -> dict[str, Any]:
    """Return the fields for the tools of a request."""
    options: dict[str, Any] = {}
    if request.tools:
        options["tools"] = [dict(tool) for tool in request.tools]
    if request.tool_choice is not None:
        options["tool_choice"] = request.tool_choice
    return options


def response_format(format: type[Any]) -> dict[str, Any]:
    """Return the option that asks for JSON of a type."""
    schema = schema_of(format)
    # Only characters that providers accept in a schema's name.
    name = re.sub(r"\W+", "_", schema.name).strip("_")[:64] or "output"
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema.json_schema}}
