"""`OpenAIBackend`: any endpoint of OpenAI's shape, through the `openai` package and nothing else."""

from __future__ import annotations

import inspect
import os
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from streamval.backends.base import Backend, Delta
from streamval.backends.continuing import continued
from streamval.backends.options import SAMPLING, check_options
from streamval.backends.provider import as_delta, broken_off, close, explained
from streamval.errors import BackendError, UsageError
from streamval.structured.schema import Schema

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from openai import AsyncOpenAI

    from streamval.backends.base import GenerationRequest
    from streamval.backends.continuing import Continues

Completion = Literal["chat", "text"]


class OpenAIBackend(Backend):
    """A model behind an endpoint of OpenAI's shape: OpenAI, vLLM, llama.cpp, Ollama and others.

    Closing the stream closes the connection, at which a server stops generating.

    Args:
        model: The model's name, as the server knows it.
        base_url: Where the server is, with its ``/v1``. By default `$OPENAI_BASE_URL`, else OpenAI.
        api_key: The key. By default `$OPENAI_API_KEY`, and with a `base_url` none is needed.
        client: Your own `openai.AsyncOpenAI`, in place of the two before. It is never closed, and
            keeps its connections; without one, each generation has a client of its own.
        completion: `"chat"` or `"text"`: which of the two completions.
        continues: How a chat's server continues the assistant's last message, where it can:
            `"message"` as it is (llama.cpp, Ollama, Anthropic, OpenRouter), `"flag"` where that has
            ``"prefix": true`` (Mistral, DeepSeek), `"vllm"` by `continue_final_message`. Text
            completions always continue.
        **params: Defaults for each generation: `temperature`, `seed`, `max_tokens`, … What the
            `openai` package does not know goes into the body as it is. `organization`, `project`,
            `timeout`, `max_retries` (by default 0) and `default_headers` are the client's.

    Raises:
        UsageError: If `model` is empty, `completion` is neither, a name is misspelt, or `client`
            comes with what a client is made of.

    Example:
        >>> OpenAIBackend("qwen3", base_url="http://localhost:8000/v1", api_key="none")
        OpenAIBackend('qwen3')
    """

    model_shown: str
    """What errors call the model."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        client: AsyncOpenAI | None = None,
        completion: Completion = "chat",
        continues: Continues | None = None,
        **params: Any,
    ) -> None:
        if not isinstance(model, str) or not model.strip():
            message = "OpenAIBackend needs a model name, such as 'gpt-4o-mini'"
            raise UsageError(message)
        if completion not in ("chat", "text"):
            message = f"completion must be 'chat' or 'text', not {completion!r}"
            raise UsageError(message)
        if continues not in (None, "message", "flag", "vllm"):
            message = f"continues must be 'message', 'flag' or 'vllm', not {continues!r}"
            raise UsageError(message)
        check_options(params)
        made_of = {"base_url": base_url, "api_key": api_key}
        if base_url is not None and not os.environ.get("OPENAI_API_KEY"):
            made_of["api_key"] = api_key or "none"  # a server of one's own mostly wants no key
        made_of |= {name: params.pop(name) for name in _CLIENT if name in params}
        self._made_of = {name: value for name, value in made_of.items() if value is not None}
        if client is not None and self._made_of:
            message = f"client= has its own {', '.join(self._made_of)}: give one or the other"
            raise UsageError(message)
        self.model = self.model_shown = model
        self.options = MappingProxyType(
            {name: value for name, value in params.items() if name in SAMPLING}
        )
        self._params = {name: value for name, value in params.items() if name not in SAMPLING}
        self._client = client
        self._completion = completion
        self._continues: Continues = continues or "message"
        self.supports_prefix = completion == "text" or continues is not None

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Refuse several answers, and misspelt names."""
        check_options(options)

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Delta]:
        """Generate; closing closes the connection."""
        params = {**self._params, **request.options}
        made_of = {**self._made_of, **{n: params.pop(n) for n in _CLIENT if n in params}}
        if (base := params.pop("api_base", None)) is not None:  # LiteLLM's name for it
            made_of["base_url"] = base
        if self._client is not None and made_of:
            message = f"client= has its own {', '.join(made_of)}: give one or the other"
            raise UsageError(message)
        client: Any = None
        response: Any = None
        started = ended = False
        problem: BackendError | None = None
        try:
            client = self._client or _made(made_of)
            response = await self._open(client, request, params)
            async for piece in response:
                started = True
                delta = as_delta(piece)
                ended = ended or delta.finish_reason is not None
                yield delta
            if not ended:
                problem = broken_off(self.model_shown, response.response)
        except Exception as error:  # whatever it is, it ends this stream
            problem = explained(
                *(error, self.model_shown, request, made_of, self._params, _keys_of(client)),
                started=started,
                answered=response is not None or hasattr(error, "status_code"),
            )
        finally:
            await close([response, client if client is not self._client else None])
        if problem is not None:  # out here, as an exception keeps the one that it is raised in
            raise problem

    async def _open(
        self, client: AsyncOpenAI, request: GenerationRequest, params: dict[str, Any]
    ) -> Any:
        params = {"model": self.model, "stream_options": {"include_usage": True}, **params}
        if self._completion == "text":
            create: Any = client.completions.create
            said = [message.content for message in request.messages]
            params["prompt"] = "\n\n".join(said) + (request.prefix or "")
        else:
            create = client.chat.completions.create
            params["messages"], more = as_chat(request, self._continues)
            params.update(more)
            if request.format is not None:
                params["response_format"] = response_format(request.format)
        known = inspect.signature(create).parameters
        own = {name: params.pop(name) for name in list(params) if name not in known}
        params["extra_body"] = {**own, **(params.get("extra_body") or {})} or None
        return await create(stream=True, **params)


_CLIENT = ("base_url", "api_key", "organization", "project", "max_retries", "default_headers")


def _keys_of(client: AsyncOpenAI | None) -> dict[str, Any]:
    """What of a client must not be shown, wherever it got it from."""
    if client is None:
        return {}
    return {"api_key": client.api_key, "headers": dict(client.default_headers)}


def _made(made_of: Mapping[str, Any]) -> AsyncOpenAI:
    import openai  # takes a while: only when something is generated

    return openai.AsyncOpenAI(**{"max_retries": 0, **made_of})


def as_chat(
    request: GenerationRequest, way: Continues
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The messages of a request, a prefix as the assistant's last one, and what else it takes."""
    messages: list[dict[str, Any]] = [
        {"role": message.role, "content": message.content} for message in request.messages
    ]
    return messages, continued(messages, request.prefix, way) if request.prefix else {}


def response_format(format: type[Any]) -> dict[str, Any]:
    """The option that asks for JSON of a type."""
    schema = Schema(format)
    # A name that providers take for a schema.
    name = re.sub(r"\W+", "_", schema.name).strip("_")[:64] or "output"
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema.json_schema}}
