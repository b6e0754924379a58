"""`LiteLLMBackend`: any provider that LiteLLM speaks to.

Four things are ours to do, all checked against LiteLLM 1.106:

- It takes seconds to import, and fetches a price list over the network when it is. So it is
  imported with the first backend, with ``LITELLM_LOCAL_MODEL_COST_MAP`` set.
- Leaving its stream, or cancelling the task that reads it, does not stop the server. Its stream of
  a chat wraps the response as ``completion_stream``, which we close.
- Where a stream ends without a finish reason, it makes one up (``stop``); ``received_finish_reason``
  tells what came. And it loses refusals: they are read as they pass, on their way to it.
- For text completions of OpenAI's kind nothing public leads to the response, its end included. So
  those go to `OpenAIBackend`, at the address that LiteLLM finds.
"""

from __future__ import annotations

import os
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from aiostream import streamcontext

from streamval.backends.base import MAX_REFUSAL, Backend, Delta
from streamval.backends.continuing import ALWAYS, way_of
from streamval.backends.openai import OpenAIBackend, as_chat, response_format
from streamval.backends.options import SAMPLING, check_options
from streamval.backends.provider import as_delta, broken_off, close, explained, text_in
from streamval.errors import BackendError, UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from types import ModuleType
    from typing import Self

    from streamval.backends.base import GenerationRequest


_ANY_CLIENTS = {"api_base", "base_url", "api_key", "max_retries"}


class LiteLLMBackend(Backend):
    """A provider's model, by its LiteLLM name.

    Args:
        model: Such as ``"openai/gpt-4o-mini"`` or ``"text-completion-openai/…"``; see
            https://docs.litellm.ai/docs/providers.
        completion: `"chat"` or `"text"`; by default `"text"` for a model whose name begins with
            ``text-completion-``.
        supports_prefix: Whether it can continue a prefix. By default yes for text completions, for
            chats with Mistral, DeepSeek, Ollama and vLLM, and for other chat models of which LiteLLM
            knows that they continue the assistant's last message (Anthropic's, mostly).
        adapters: Low-rank adapters for an `ALoraRequirement`, by name: the model name under
            which the server has one (as vLLM does), or the options that switch it on (llama.cpp:
            ``{"extra_body": {"lora": [{"id": 0, "scale": 1.0}]}}``).
        **params: Handed to LiteLLM: `api_key`, `api_base`, `temperature`, and so on. Nothing is
            retried unless you pass `max_retries`. Keys never appear in events, logs or `repr`.

    Raises:
        UsageError: If `model` is empty, `completion` is neither, `n` is above 1, or a name is
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
        **params: Any,
    ) -> None:
        if not isinstance(model, str) or not model.strip():
            message = "LiteLLMBackend needs a model name, such as 'openai/gpt-4o-mini'"
            raise UsageError(message)
        if completion not in (None, "chat", "text"):
            message = f"completion must be 'chat' or 'text', not {completion!r}"
            raise UsageError(message)
        check_options(params)
        self.model = model
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
        """Refuse several answers, and misspelt names."""
        check_options(options)

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Delta]:
        """Generate; closing closes the connection."""
        if (direct := self._direct(request)) is not None:
            options = self._without_its_own(request.options)
            async with streamcontext(direct.stream(replace(request, options=options))) as deltas:
                async for delta in deltas:
                    yield delta
            return
        response: Any = None
        raw: _Raw | None = None
        started = False
        problem: BackendError | None = None
        try:
            response = await self._open(request)
            raw = await _listened(response)
            async for piece in response:
                started = True
                delta = as_delta(piece)
                if raw is not None and not raw.counts:
                    delta = replace(delta, usage=None)
                if delta.finish_reason and not _really_finished(response):
                    delta = replace(delta, finish_reason=None)
                yield delta
            if raw is not None and raw.refusal:
                yield Delta(refusal=raw.refusal)
            if not _really_finished(response):
                problem = broken_off(self.model, raw and raw.response)
        except Exception as error:  # whatever it is, it ends this stream
            problem = explained(
                *(error, self.model, request, self._params),
                started=started,
                answered=response is not None,
                key_from=self._key_variable(),
            )
        finally:
            await close([raw, response])
        if problem is not None:  # out here, as an exception keeps the one that it is raised in
            raise problem

    def _direct(self, request: GenerationRequest) -> OpenAIBackend | None:
        """Who generates text completions of OpenAI's kind; `None` for any other generation."""
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
        direct = OpenAIBackend(model, base_url=base or found, completion="text", **params)
        direct.model_shown = self.model
        return direct

    def _without_its_own(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Options without those that tell LiteLLM how to work, and are nothing to the provider."""
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
        messages, more = as_chat(request, way_of(self._provider()))
        if self._completion == "text":
            said = [message.content for message in request.messages]
            prompt = "\n\n".join(said) + (request.prefix or "")
            return await self._litellm.atext_completion(prompt=prompt, **params)
        if request.format is not None:
            params["response_format"] = response_format(request.format)
        if more:
            params["extra_body"] = {**(params.get("extra_body") or {}), **more}
        return await self._litellm.acompletion(messages=messages, **params)

    def _key_variable(self) -> str:
        """Where LiteLLM looks for this provider's key."""
        if missing := self._litellm.validate_environment(self.model).get("missing_keys"):
            return str(missing[0])
        provider = self.model.removeprefix("text-completion-").partition("/")[0]
        return f"{provider.upper()}_API_KEY"

    def _continues_assistant(self) -> bool:
        if (provider := self._provider()) in ALWAYS:
            return True
        try:
            known = self._litellm.get_model_info(self.model)
        except Exception:  # a model that LiteLLM has not heard of
            return provider == "openrouter" and "anthropic/" in self.model
        return bool(known.get("supports_assistant_prefill"))

    def _provider(self) -> str:
        try:
            return str(self._litellm.get_llm_provider(self.model)[1])
        except Exception:  # LiteLLM will say so when it is asked to generate
            return self.model.partition("/")[0]


class _Raw:
    """A provider's stream on its way to LiteLLM. Hears what LiteLLM loses of it.

    Attributes:
        refusal: The words with which the model refused, so far.
        counts: Whether it has reported the tokens.
        response: The response of HTTP, where the stream shows it.
    """

    def __init__(self, stream: Any) -> None:
        self.refusal = ""
        self.counts = False
        self.response = getattr(stream, "response", None)
        self._stream = stream
        self._pieces = aiter(stream)

    def __aiter__(self) -> Self:  # LiteLLM begins anew for each piece
        return self

    async def __anext__(self) -> Any:
        piece = await anext(self._pieces)
        usage = piece.get("usage") if isinstance(piece, dict) else getattr(piece, "usage", None)
        self.counts = self.counts or bool(usage)
        for choice in getattr(piece, "choices", None) or ():
            said: Any = getattr(choice, "delta", None)
            content = getattr(said, "content", None)
            if content is not None and not isinstance(content, str):
                said.content = text_in(content)  # LiteLLM would drop it
            refusal = getattr(said, "refusal", None)
            if refusal and len(self.refusal) < MAX_REFUSAL:
                self.refusal += str(refusal)
        return piece

    async def aclose(self) -> None:
        """Close the stream."""
        await close([self._stream])


def import_litellm() -> ModuleType:
    """LiteLLM, imported without its trip to the network."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm  # takes seconds: only when the first backend is built

    litellm.suppress_debug_info = True
    module: ModuleType = litellm
    return module


async def _listened(response: Any) -> _Raw | None:
    """Listen to the stream that LiteLLM reads, if it lets us."""
    wrapper = _wrapper(response)
    if wrapper is None:
        return None
    if wrapper.completion_stream is None and hasattr(wrapper, "fetch_stream"):
        await wrapper.fetch_stream()  # some providers are asked when the first piece is read
    if not hasattr(wrapper.completion_stream, "__aiter__"):
        return None
    wrapper.completion_stream = raw = _Raw(wrapper.completion_stream)
    return raw


def _wrapper(response: Any) -> Any:
    """LiteLLM's stream of a chat, within its stream of a text completion if that is what we have."""
    if hasattr(response, "received_finish_reason"):
        return response
    return _wrapper(response.completion_stream) if hasattr(response, "completion_stream") else None


def _really_finished(response: Any) -> bool:
    """Whether the provider said that it had finished. Where LiteLLM cannot tell, it has."""
    wrapper = _wrapper(response)
    return wrapper is None or bool(
        wrapper.received_finish_reason or getattr(wrapper, "intermittent_finish_reason", None)
    )
