"""`LiteLLMBackend`: any provider that LiteLLM speaks to.

Three things are ours to do, all checked against LiteLLM 1.106:

- It takes seconds to import, and fetches a price list over the network when it is. So it is
  imported with the first backend, with ``LITELLM_LOCAL_MODEL_COST_MAP`` set.
- Leaving its stream, or cancelling the task that reads it, does not stop the server. Its stream of
  a chat wraps the response as ``completion_stream``, which we close. For text completions of
  OpenAI's kind nothing public leads to the response, and LiteLLM makes a client for each that it
  never closes. So there we hand it a client of our own, and close that.
- Its errors are many lines of advice on LiteLLM. Ours are one, and never hold a key.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from streamval.backends.base import Backend, Delta
from streamval.errors import (
    AuthenticationError,
    BackendError,
    ConnectionFailedError,
    RateLimitError,
    StreamBrokenError,
    UnknownModelError,
    UsageError,
)
from streamval.structured.schema import Schema
from streamval.types.results import Usage

if TYPE_CHECKING:
    from types import ModuleType

    from streamval.backends.base import GenerationRequest

_SAMPLING = frozenset(
    {
        *("temperature", "seed", "max_tokens", "max_completion_tokens", "top_p", "top_k", "stop"),
        *("presence_penalty", "frequency_penalty", "logit_bias", "n", "reasoning_effort"),
    }
)
_SECRET_NAMES = ("key", "token", "secret", "password", "authorization", "credential")


class LiteLLMBackend(Backend):
    """A provider's model, by its LiteLLM name.

    Args:
        model: Such as ``"openai/gpt-4o-mini"`` or ``"text-completion-openai/…"``; see
            https://docs.litellm.ai/docs/providers.
        completion: `"chat"` or `"text"`; by default `"text"` for a model whose name begins with
            ``text-completion-``.
        supports_prefix: Whether it can continue a prefix. By default yes for text completions,
            and for chat models of which LiteLLM knows that they continue the assistant's last
            message.
        adapters: Low-rank adapters for an `ALoraRequirement`, by name: the model name under
            which the server has one (as vLLM does), or the options that switch it on (llama.cpp:
            ``{"extra_body": {"lora": [{"id": 0, "scale": 1.0}]}}``).
        **params: Handed to LiteLLM: `api_key`, `api_base`, `temperature`, and so on. Nothing is
            retried unless you pass `max_retries`. Keys never appear in events, logs or `repr`.

    Raises:
        UsageError: If `model` is empty, `completion` is neither, or `n` is above 1.

    Example:
        >>> LiteLLMBackend("openai/gpt-4o-mini", api_key="sk-secret")
        LiteLLMBackend('openai/gpt-4o-mini')
    """

    def __init__(
        self,
        model: str,
        *,
        completion: Literal["chat", "text"] | None = None,
        supports_prefix: bool | None = None,
        adapters: Mapping[str, str | Mapping[str, Any]] | None = None,
        **params: Any,
    ) -> None:
        if not isinstance(model, str) or not model.strip():
            message = "LiteLLMBackend needs a model name, such as 'openai/gpt-4o-mini'"
            raise UsageError(message)
        if completion not in (None, "chat", "text"):
            message = f"completion must be 'chat' or 'text', not {completion!r}"
            raise UsageError(message)
        self.model = model
        self._litellm = import_litellm()
        self._completion = completion or (
            "text" if model.startswith("text-completion-") else "chat"
        )
        sampling = {name: value for name, value in params.items() if name in _SAMPLING}
        self.options = MappingProxyType(sampling)
        self._params = {name: value for name, value in params.items() if name not in _SAMPLING}
        self._secrets = _secrets(self._params)
        _check_one_answer(params)
        self.adapters = {
            name: {"model": how} if isinstance(how, str) else dict(how)
            for name, how in (adapters or {}).items()
        }
        self.supports_prefix = (
            self._completion == "text" or self._continues_assistant()
            if supports_prefix is None
            else supports_prefix
        )

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Delta]:
        """Generate; closing closes the connection."""
        _check_one_answer(request.options)
        client = self._own_client(request)
        response: Any = None
        started = False
        try:
            response = await self._open(request, client)
            async for piece in response:
                started = True
                delta = self._delta(piece)
                if delta.text or delta.usage or delta.finish_reason:
                    yield delta
        except BackendError:
            raise
        except Exception as error:  # whatever it is, it ends this stream
            raise self._explained(error, started=started) from None
        finally:
            await _close([*_streams_in(response), client])

    def _own_client(self, request: GenerationRequest) -> Any:
        """A client for one text completion of OpenAI's kind; `None` for any other generation."""
        if self._completion != "text":
            return None
        params = {**self._params, **request.options}
        base = params.get("api_base") or params.get("base_url")
        try:
            _, provider, key, _ = self._litellm.get_llm_provider(self.model, api_base=base)
        except Exception:  # LiteLLM will say so when it is asked to generate
            return None
        if provider not in ("text-completion-openai", "openai"):
            return None
        import openai  # which LiteLLM has loaded

        try:
            return openai.AsyncOpenAI(
                api_key=params.get("api_key") or key,
                base_url=base,
                organization=params.get("organization"),
                timeout=params.get("timeout", openai.NOT_GIVEN),
                max_retries=params.get("max_retries", 0),
            )
        except openai.OpenAIError as error:
            raise self._explained(error, started=False) from None

    async def _open(self, request: GenerationRequest, client: Any) -> Any:
        params = {
            "model": self.model,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_retries": 0,
            **self._params,
            **request.options,
        }
        # LiteLLM and the client below it would each try again: the client does, LiteLLM does not.
        params.setdefault("num_retries", 0 if not params["max_retries"] else None)
        if request.format is not None and self._completion == "chat":  # the only one to take it
            schema = Schema(request.format)
            params["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": _plain(schema.name), "schema": schema.json_schema},
            }
        messages: list[dict[str, Any]] = [
            {"role": turn.role, "content": turn.content} for turn in request.messages
        ]
        if self._completion == "text":
            prompt = "\n\n".join(turn["content"] for turn in messages) + (request.prefix or "")
            if client is not None:
                params["client"] = client
            return await self._litellm.atext_completion(prompt=prompt, **params)
        if request.prefix:
            messages.append({"role": "assistant", "content": request.prefix, "prefix": True})
        return await self._litellm.acompletion(messages=messages, **params)

    def _delta(self, piece: Any) -> Delta:
        choice = piece.choices[0] if piece.choices else None
        text: Any = None
        if choice is not None:
            text = choice.text if self._completion == "text" else choice.delta.content
        return Delta(
            text=text or "",
            usage=_usage(getattr(piece, "usage", None)),
            finish_reason=getattr(choice, "finish_reason", None),
        )

    def _continues_assistant(self) -> bool:
        try:
            return bool(self._litellm.supports_assistant_prefill(self.model))
        except Exception:  # a model that LiteLLM has not heard of
            return False

    def _explained(self, error: Exception, *, started: bool) -> BackendError:  # noqa: PLR0911
        """One clear error for each of the ways a provider fails."""
        known = self._litellm.exceptions
        detail = self._without_secrets(str(error)).strip().splitlines()
        said = detail[0][:300] if detail else type(error).__name__
        if started and not isinstance(error, known.RateLimitError):
            return StreamBrokenError(f"{self.model} broke off in mid-stream: {said}")
        if isinstance(error, known.AuthenticationError) or "Missing credentials" in said:
            message = (
                f"{self.model} has no API key that the provider takes; set the provider's environment variable "
                f"(OPENAI_API_KEY, …) or pass api_key=: {said}"
            )
            return AuthenticationError(message)
        if isinstance(error, known.NotFoundError):
            return UnknownModelError(
                f"{self.model} is not known to the provider; check the name and api_base: {said}"
            )
        if isinstance(error, known.RateLimitError):
            return RateLimitError(
                f"{self.model} asks for fewer requests; wait, lower task_limit, or pass "
                f"max_retries=: {said}"
            )
        if isinstance(error, known.Timeout):
            return ConnectionFailedError(f"{self.model} did not answer in time: {said}")
        if isinstance(error, known.APIConnectionError) or "onnection" in said:
            return ConnectionFailedError(
                f"there is no answer for {self.model}; check the network and api_base: {said}"
            )
        if isinstance(error, known.BadRequestError) and "LLM Provider NOT provided" in str(error):
            return UnknownModelError(
                f"LiteLLM knows no provider for {self.model!r}; write it as 'provider/model', such "
                "as 'openai/gpt-4o-mini'"
            )
        return BackendError(f"{self.model} failed: {said}")

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def import_litellm() -> ModuleType:
    """LiteLLM, imported without its trip to the network."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm  # takes seconds: only when the first backend is built

    litellm.suppress_debug_info = True
    module: ModuleType = litellm
    return module


def _check_one_answer(params: Mapping[str, Any]) -> None:
    if params.get("n") not in (None, 1):
        message = (
            f"n={params['n']!r} asks for several answers, and a run judges one; leave n out, and "
            "start several runs"
        )
        raise UsageError(message)


def _streams_in(response: Any) -> list[Any]:
    """A stream of LiteLLM's and those that it wraps, outermost first."""
    found: list[Any] = []
    while response is not None and all(response is not known for known in found):
        found.append(response)
        response = getattr(response, "completion_stream", None)
    return found


async def _close(streams: list[Any]) -> None:
    """Close them from the inside out, as an outer one forgets what it wraps."""
    for stream in reversed(streams):
        close = getattr(stream, "aclose", None) or getattr(stream, "close", None)
        if close is not None:
            closing = close()
            if inspect.isawaitable(closing):
                await closing


def _plain(name: str) -> str:
    """A name that providers take for a schema."""
    return re.sub(r"\W+", "_", name).strip("_")[:64] or "output"


def _usage(reported: Any) -> Usage | None:
    if reported is None or not getattr(reported, "completion_tokens", None):
        return None
    return Usage(
        prompt_tokens=getattr(reported, "prompt_tokens", None),
        completion_tokens=reported.completion_tokens,
        source="backend",
    )


def _secrets(params: Mapping[str, Any]) -> list[str]:
    """The values that must not be shown, longest first."""
    found = []
    for name, value in params.items():
        if isinstance(value, Mapping):
            found += _secrets(value)
        elif isinstance(value, str) and any(word in name.lower() for word in _SECRET_NAMES):
            found.append(value)
    found += [
        value
        for name, value in os.environ.items()
        if name.upper().endswith(("_API_KEY", "_TOKEN", "_SECRET")) and len(value) > 7  # noqa: PLR2004
    ]
    return sorted((secret for secret in found if secret), key=len, reverse=True)
