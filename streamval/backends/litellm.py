"""`LiteLLMBackend`: any provider that LiteLLM supports.

This backend handles four limitations of LiteLLM, all checked against version 1.106:

- It takes seconds to import, and then fetches a price list over the network. So it is imported with
  the first backend, with ``LITELLM_LOCAL_MODEL_COST_MAP`` set.
- Leaving its stream, or cancelling the task that reads it, does not stop the server. The provider's
  stream inside it has to be closed.
- It invents a finish reason (``stop``) where a stream ends without one, and token counts where the
  provider reports none. It drops refusals, and text in parts. So the provider's pieces are read on
  their way to LiteLLM (`_ProviderStream`).
- For text completions of OpenAI's kind it gives no access to the response. So those go to
  `OpenAIBackend`, at the address that LiteLLM finds.

It uses three undocumented names of LiteLLM's `CustomStreamWrapper`: `completion_stream` (the provider's
stream), `fetch_stream` (makes that stream, where it is made late) and `received_finish_reason` (for
providers whose pieces are not in OpenAI's format). Without them, a stream that was cut would count as
finished. `tests/backends/test_litellm.py` tests them, and `pyproject.toml` has an upper bound.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from types import MappingProxyType, ModuleType
from typing import Any, Literal, Self

from aiostream import streamcontext

from streamval.backends.base import Backend, GenerationRequest
from streamval.backends.continuing import ALWAYS, way_of
from streamval.backends.openai import (
    OpenAIBackend,
    as_chat,
    as_prompt,
    check_prompt,
    response_format,
    tool_options,
)
from streamval.backends.options import SAMPLING, check_options
from streamval.backends.provider import broken_off, close, provider_error
from streamval.backends.tags import check_tags
from streamval.errors import BackendError, UnknownModelError, UsageError
from streamval.types.deltas import MAX_REFUSAL, Delta
from streamval.wire.completions import CompletionReader
from streamval.wire.parts import part, text_in

_ANY_CLIENTS = {"api_base", "base_url", "api_key", "max_retries"}


class LiteLLMBackend(Backend):
    """A provider's model, by its LiteLLM name.

    Args:
        model: Such as ``"openai/gpt-4o-mini"`` or ``"text-completion-openai/…"``; see
            https://docs.litellm.ai/docs/providers.
        completion: `"chat"` or `"text"`; by default `"text"` for a model whose name begins with
            ``text-completion-``.
        supports_prefix: Whether it can continue a prefix. By default yes for text completions, for
            chats with Mistral, DeepSeek, Ollama and vLLM, and for other chat models that, according to
            LiteLLM, continue the assistant's last message (mostly Anthropic's).
        adapters: Low-rank adapters for an `ALoraRequirement`, by name: the model name under
            which the server has one (as vLLM does), or the options that switch it on (llama.cpp:
            ``{"extra_body": {"lora": [{"id": 0, "scale": 1.0}]}}``).
        reasoning_tags: The tags between which the model writes its reasoning in the text; see `OpenAIBackend`.
        **params: Handed to LiteLLM: `api_key`, `api_base`, `temperature`, and so on. Nothing is
            retried unless you pass `max_retries`. Keys never appear in events, logs or `repr`.

    Raises:
        UsageError: If `model` is empty, `completion` is unknown, `n` is above 1, or a name is
            misspelt.

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
        reasoning_tags: tuple[str, str] | None = None,
        **params: Any,
    ) -> None:
        if not isinstance(model, str) or not model.strip():
            raise UsageError("LiteLLMBackend needs a model name, such as 'openai/gpt-4o-mini'")
        if completion not in (None, "chat", "text"):
            raise UsageError(f"completion must be 'chat' or 'text', not {completion!r}")
        check_options(params)
        self.model = model
        self.reasoning_tags = check_tags(reasoning_tags)
        self._litellm = import_litellm()
        self._completion = completion or (
            "text" if model.startswith("text-completion-") else "chat"
        )
        sampling = {name: value for name, value in params.items() if name in SAMPLING}
        self.options = MappingProxyType(sampling)
        self._params = {name: value for name, value in params.items() if name not in SAMPLING}
        self.adapters = {
            name: {"model": how} if isinstance(how, str) else dict(how)
            for name, how in (adapters or {}).items()
        }
        self.supports_prefix = (
            self._completion == "text" or self._continues_assistant()
            if supports_prefix is None
            else supports_prefix
        )

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Reject `n` above 1, and misspelt option names."""
        check_options(options)

    def check_request(self, request: GenerationRequest) -> None:
        """Refuse what a text completion cannot send."""
        if self._completion == "text":
            check_prompt(request, self.model)

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Delta]:
        """Generate the output. Closing the stream closes the connection."""
        if (direct := self._direct(request)) is not None:
            options = self._without_its_own(request.options)
            async with streamcontext(direct.stream(replace(request, options=options))) as deltas:
                async for delta in deltas:
                    yield delta
            return
        response: Any = None
        provider: _ProviderStream | None = None
        started = False
        reader = CompletionReader()
        problem: BackendError | None = None
        try:
            response = await self._open(request)
            provider = await _listen(response)
            async for piece in response:
                started = True
                for delta in reader.read(piece):
                    yield delta if provider is None else provider.corrected(delta, response)
            if provider is not None and provider.refusal:
                yield Delta(refusal=provider.refusal)
            if provider is not None and not _finished(response, provider):
                problem = broken_off(self.model, provider.response)
        except UnknownModelError as error:
            problem = error
        except Exception as error:  # whatever it is, it ends this stream
            problem = provider_error(
                *(error, self.model, request, self._params),
                started=started,
                answered=response is not None,
                key_from=self._key_variable(),
            )
        finally:
            await close([provider, response])
        if problem is not None:  # outside of `except`, so that it keeps no other exception
            raise problem

    def _direct(self, request: GenerationRequest) -> OpenAIBackend | None:
        """Return the backend for text completions of OpenAI's kind; `None` for other generations."""
        if self._completion != "text":
            return None
        params = self._without_its_own(self._params)
        base = params.pop("api_base", None) or params.pop("base_url", None)
        given = request.options.get("api_base") or request.options.get("base_url") or base
        try:
            model, provider, key, found = self._litellm.get_llm_provider(self.model, api_base=given)
        except Exception:  # LiteLLM will say so when it is asked to generate
            return None
        if provider not in ("text-completion-openai", "openai"):
            return None
        params["api_key"] = params.get("api_key") or key
        direct = OpenAIBackend(model, base_url=base or found, api="text", **params)
        direct.model_shown = self.model
        return direct

    def _without_its_own(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return options without the parameters of LiteLLM itself."""
        its_own = set(self._litellm.all_litellm_params) - _ANY_CLIENTS
        return {name: value for name, value in options.items() if name not in its_own}

    async def _open(self, request: GenerationRequest) -> Any:
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
        self._check_provider(params)
        if self._completion == "text":
            prompt = as_prompt(request, self.model)
            return await self._litellm.atext_completion(prompt=prompt, **params)
        messages, more = as_chat(request, way_of(self._provider()))
        params.update(tool_options(request))
        if request.format is not None:
            params["response_format"] = response_format(request.format)
        if more:
            params["extra_body"] = {**(params.get("extra_body") or {}), **more}
        return await self._litellm.acompletion(messages=messages, **params)

    def _check_provider(self, params: Mapping[str, Any]) -> None:
        """Reject a model without a known provider. LiteLLM reports it like any wrong request.

        Raises:
            UnknownModelError: If LiteLLM does not know a provider for the model.
        """
        try:
            self._litellm.get_llm_provider(
                self.model,
                custom_llm_provider=params.get("custom_llm_provider"),
                api_base=params.get("api_base") or params.get("base_url"),
            )
        except self._litellm.BadRequestError:
            raise UnknownModelError(
                f"LiteLLM does not know a provider for {self.model}; write it as 'provider/model', "
                "such as 'openai/gpt-4o-mini'"
            ) from None

    def _key_variable(self) -> str:
        """Return the environment variable in which LiteLLM looks for this provider's key."""
        if missing := self._litellm.validate_environment(self.model).get("missing_keys"):
            return str(missing[0])
        provider = self.model.removeprefix("text-completion-").partition("/")[0]
        return f"{provider.upper()}_API_KEY"

    def _continues_assistant(self) -> bool:
        if (provider := self._provider()) in ALWAYS:
            return True
        try:
            known = self._litellm.get_model_info(self.model)
        except Exception:  # a model unknown to LiteLLM
            return provider == "openrouter" and "anthropic/" in self.model
        return bool(known.get("supports_assistant_prefill"))

    def _provider(self) -> str:
        try:
            return str(self._litellm.get_llm_provider(self.model)[1])
        except Exception:  # LiteLLM will say so when it is asked to generate
            return self.model.partition("/")[0]


class _ProviderStream:
    """A provider's stream, which LiteLLM reads. Keeps the information that LiteLLM drops.

    Attributes:
        refusal: The words with which the model refused, so far.
        counts: Whether the provider has reported tokens.
        finished: Whether it has sent a finish reason, in OpenAI's format.
        other_format: Whether its pieces are in another format, in which only LiteLLM finds the reason.
        response: The HTTP response, if the stream has one.
    """

    def __init__(self, stream: Any) -> None:
        self.refusal = ""
        self.counts = self.finished = self.other_format = False
        self.response = getattr(stream, "response", None)
        self._stream = stream
        self._pieces = aiter(stream)

    def __aiter__(self) -> Self:  # LiteLLM begins anew for each piece
        return self

    async def __anext__(self) -> Any:
        piece = await anext(self._pieces)
        self.counts = self.counts or bool(part(piece, "usage"))
        # LiteLLM's own format has a finish reason and no choices; a provider's format may have neither.
        choices = part(piece, "choices")
        if choices is None and (not isinstance(piece, Mapping) or "finish_reason" not in piece):
            self.other_format = True
        for choice in (piece,) if choices is None else choices:
            self.finished = self.finished or bool(part(choice, "finish_reason"))
            message: Any = part(choice, "delta")
            content = part(message, "content")
            if content is not None and not isinstance(content, str):
                message.content = text_in(content)  # LiteLLM would drop it
            refusal = part(message, "refusal")
            if refusal and len(self.refusal) < MAX_REFUSAL:
                self.refusal += str(refusal)
        return piece

    def corrected(self, delta: Delta, response: Any) -> Delta:
        """Return a delta without the usage and the finish reason that LiteLLM has made up."""
        if delta.usage is None and delta.finish_reason is None:
            return delta
        usage = delta.usage if self.counts else None
        if (
            usage is not None and not usage.reasoning_tokens
        ):  # it counts 0 where there are no details
            usage = replace(usage, reasoning_tokens=None)
        reason = delta.finish_reason if _finished(response, self) else None
        return replace(delta, usage=usage, finish_reason=reason)

    async def aclose(self) -> None:
        """Close the stream."""
        await close([self._stream])


def import_litellm() -> ModuleType:
    """Import LiteLLM so that it does not fetch its price list."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm  # takes seconds: only when the first backend is built

    litellm.suppress_debug_info = True
    module: ModuleType = litellm
    return module


async def _listen(response: Any) -> _ProviderStream | None:
    """Put a `_ProviderStream` between a provider and LiteLLM; `None` where there is no such stream."""
    wrapper = _wrapper(response)
    if getattr(wrapper, "completion_stream", None) is None and hasattr(wrapper, "fetch_stream"):
        await wrapper.fetch_stream()  # some providers are called when the first piece is read
    inner: Any = getattr(wrapper, "completion_stream", None)
    if not hasattr(inner, "__aiter__"):
        return None
    wrapper.completion_stream = stream = _ProviderStream(inner)
    return stream


def _wrapper(response: Any) -> Any:
    """Return LiteLLM's stream of a chat, which its stream of a text completion contains."""
    inner = getattr(response, "completion_stream", None)
    return inner if hasattr(inner, "completion_stream") else response


def _finished(response: Any, provider: _ProviderStream) -> bool:
    """Return whether the provider has sent a finish reason."""
    if provider.finished or not provider.other_format:
        return provider.finished
    return bool(getattr(_wrapper(response), "received_finish_reason", True))
