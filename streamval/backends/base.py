"""`Backend`: takes a `GenerationRequest`, yields deltas."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeAlias

from aiostream import streamcontext
from reactivex import Observable

from streamval import bridge
from streamval.aio.breaker import Breaker
from streamval.backends.generation import Generation
from streamval.backends.options import endpoint_options, stall_timeout_of
from streamval.backends.secrets import masked
from streamval.backends.tags import TagReader
from streamval.chunkers.base import not_text
from streamval.errors import UsageError
from streamval.types.components import CBlock, Component, render
from streamval.types.context import Context
from streamval.types.deltas import Delta, content_of, note
from streamval.types.messages import Message
from streamval.types.text import Mender
from streamval.types.thunk import GenerationMetadata, ModelOutputThunk

Prompt: TypeAlias = (
    "str | CBlock | Component | Message | Mapping[str, Any] | Sequence[Message | Mapping[str, Any]]"
)
"""A prompt: a text, a component, a message, or a conversation (a list of `Message` or of
dictionaries of OpenAI's chat completions)."""


@dataclass(frozen=True, slots=True, repr=False)
class GenerationRequest:
    """A request to a backend.

    Attributes:
        messages: The conversation.
        prefix: Text that the output begins with; the backend generates only the continuation. `None` to
            generate the whole output.
        reasoning_prefix: Reasoning that was written: the model goes on with its answer. `None` to let it reason. Only
            a backend with `reasoning_tags` that can continue a prefix gets one, as a part of `prefix`.
        tools: The tools that the model may call, as OpenAI's chat completions write them.
        tool_choice: Whether it has to call one, in the same form; `None` to leave it to the model.
        format: A pydantic model that the output should be an instance of, or `None`.
        options: `temperature`, `seed`, `max_tokens` and other options of the backend.
        attempt: From 1.
        reasoning_ends: Whether the reasoning of `reasoning_prefix` is over. If not, the model goes on with it.
    """

    messages: tuple[Message, ...]
    prefix: str | None = None
    reasoning_prefix: str | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: Any = None
    format: Any = None
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    attempt: int = 1
    reasoning_ends: bool = True

    def __repr__(self) -> str:  # with the keys in the options masked
        return (
            f"GenerationRequest({self.messages!r}, prefix={self.prefix!r}, format={self.format!r}, "
            f"tools={len(self.tools)}, options={masked(self.options)!r}, attempt={self.attempt})"
        )


class Backend(ABC):
    """Something that generates text as a stream.

    A subclass writes `stream`, an async generator. It may be closed at any `yield` or `await`,
    and must then stop generating: use ``finally``, or an ``async with`` around the
    connection.

    Attributes:
        model: A name for events.
        supports_prefix: Whether it can continue `GenerationRequest.prefix`.
        reasoning_tags: The tags between which its model writes its reasoning, in the text:
            ``("<think>", "</think>")``. `None` where the server reports it apart, or there is none.
        can_judge: Whether its model can follow a judge's question. Where it cannot, a warning says so.
        options: Defaults for `GenerationRequest.options`.
        adapters: The low-rank adapters that can judge, by name, each with the options that
            switch it on.

    Example:
        >>> import asyncio
        >>> class Echo(Backend):
        ...     model = "echo"
        ...     async def stream(self, request):
        ...         for word in request.messages[-1].content.split():
        ...             yield word + " "
        >>> async def main():
        ...     thunk, _ = await Echo().generate_from_context("Say it again", Context())
        ...     return await thunk.avalue()
        >>> asyncio.run(main())
        'Say it again '
    """

    model: str = ""
    supports_prefix: bool = False
    reasoning_tags: tuple[str, str] | None = None
    can_judge: bool = True
    options_hold_keys: bool = True
    """Whether the options of a request may hold keys, which are then redacted. Not those of a stranger."""

    options: Mapping[str, Any] = MappingProxyType({})
    adapters: Mapping[str, Mapping[str, Any]] = MappingProxyType({})

    def for_judges(self, options: Mapping[str, Any]) -> Backend:
        """Return the backend for judges, at the run's endpoint.

        Args:
            options: The run's options. Options that name an endpoint or a key are used; options that shape
                the output are ignored.

        Returns:
            This backend, or a copy with these options as its own.
        """
        there = {
            name: value
            for name, value in endpoint_options(options).items()
            if name not in self.options or self.options[name] != value
        }
        if not there:
            return self
        judge = copy(self)
        judge.options = MappingProxyType({**self.options, **there})
        return judge

    @abstractmethod
    def stream(self, request: GenerationRequest) -> AsyncIterator[str | Delta]:
        """Generate the output. Implement it as an async generator.

        Args:
            request: The request.

        Yields:
            Pieces of text as they come. A `Delta` without text only reports.

        Raises:
            BackendError: If it cannot generate, or stops halfway.
        """

    @cached_property
    def breaker(self) -> Breaker:
        """When it may be asked again after a failure, for all runs of pipelines with several backends."""
        return Breaker()

    @property
    def continues_reasoning(self) -> bool:
        """Whether it can go on after reasoning that is over: it continues a prefix, and the tags are known."""
        return self.supports_prefix and self.reasoning_tags is not None

    def deltas(self, request: GenerationRequest) -> AsyncIterator[str | Delta]:
        """Generate the output, as `stream` does, with the reasoning between `reasoning_tags` read as reasoning."""
        if self.reasoning_tags is None:
            return self.stream(request)
        return self._tagged(request, self.reasoning_tags)

    async def _tagged(
        self, request: GenerationRequest, tags: tuple[str, str]
    ) -> AsyncGenerator[str | Delta]:
        thought = request.reasoning_prefix
        reader = TagReader(
            *tags,
            within_text=bool(request.prefix),
            after_thought=thought is not None and request.reasoning_ends,
            within_thought=thought is not None and not request.reasoning_ends,
        )
        if thought is not None:
            ending = f"{tags[1]}\n\n{request.prefix or ''}" if request.reasoning_ends else ""
            prefix = f"{tags[0]}{thought}{ending}"
            request = replace(request, prefix=prefix, reasoning_prefix=None)
        async with streamcontext(self.stream(request)) as deltas:
            async for delta in deltas:
                for piece in reader.feed(delta):
                    yield piece
        for piece in reader.flush():
            yield piece

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Reject invalid options. By default all options are accepted.

        Raises:
            UsageError: If an option is invalid.
        """

    def check_request(self, request: GenerationRequest) -> None:
        """Refuse a request with parts that this backend cannot send, by name. By default everything is accepted.

        Raises:
            UsageError: If a part of a message, or a tool, would be dropped.
        """

    def request(self, prompt: Prompt, **options: Any) -> GenerationRequest:
        """Return a request for `prompt`, with this backend's options unless given others.

        Raises:
            UsageError: If `prompt` is not a prompt, or `check_options` refuses an option.
        """
        self.check_options(options)
        return GenerationRequest(as_messages(prompt), options={**self.options, **options})

    def observe(
        self, prompt: Prompt | GenerationRequest, *, stall_timeout: float | None = None
    ) -> Observable[str]:
        """Return the token stream as a cold observable: each subscription generates anew.

        Args:
            prompt: What to ask, or a whole request.
            stall_timeout: Seconds without a delta before it fails; `None` for never.

        Returns:
            The deltas' text (or bytes, of a backend that yields sound), as a pipeline reads it.
            Disposing closes the backend.
        """
        request = prompt if isinstance(prompt, GenerationRequest) else self.request(prompt)

        async def contents() -> AsyncIterator[Any]:
            mender = Mender()
            async with streamcontext(self.deltas(request)) as deltas:
                async for delta in deltas:
                    if delta is None:
                        raise not_text(delta)
                    content: Any = content_of(delta)
                    if content := mender.feed(content) if isinstance(content, str) else content:
                        yield content
            if rest := mender.flush():
                yield rest

        return bridge.from_async_iterable(contents, stall_timeout=stall_timeout)

    async def generate_from_context(
        self,
        action: Prompt,
        ctx: Context,
        *,
        format: type[Any] | None = None,
        model_options: Mapping[str, Any] | None = None,
    ) -> tuple[ModelOutputThunk, Context]:
        """Ask the model, after the turns of ``ctx.history()``.

        Args:
            action: What to ask: a prompt, a `CBlock` or a `Component`.
            ctx: The conversation so far.
            format: A pydantic model that the output should be an instance of.
            model_options: Options for this generation. `stall_timeout` among them is the seconds
                without a piece of output before it fails.

        Returns:
            The output, which is generated when it is first asked for, and the conversation that
            ends in it.
        """
        asked = as_messages(action)
        timeout, options = stall_timeout_of({**self.options, **(model_options or {})})
        self.check_options(options)
        request = GenerationRequest((*ctx.history(), *asked), format=format, options=options)
        self.check_request(request)

        def start(known: GenerationMetadata) -> Generation:
            def read(delta: str | Delta) -> str | None:
                if isinstance(delta, Delta):
                    note(delta, known)
                return _text_of(delta) or None

            return Generation(
                known,
                lambda: bridge.from_async_iterable(
                    lambda: self.deltas(request), read=read, stall_timeout=timeout
                ),
            )

        thunk = ModelOutputThunk.generating(self.model, start)
        for message in asked:
            ctx = ctx.add(message)
        return thunk, ctx.add(thunk)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"


def _text_of(delta: str | Delta) -> str:
    """Return the text of a delta.

    Raises:
        DeltaTypeError: If it is neither a string nor a `Delta` of text.
    """
    text = delta.text if isinstance(delta, Delta) else delta
    if not isinstance(text, str):
        raise not_text(text)
    return text


def as_messages(prompt: Prompt) -> tuple[Message, ...]:
    """Return a prompt as messages.

    Raises:
        UsageError: If it is not a prompt, or is empty.

    Example:
        >>> as_messages("Hi")
        (Message(role='user', content='Hi'),)
    """
    if not isinstance(prompt, str) and isinstance(prompt, (CBlock, Component)):
        prompt = render(prompt)
    if isinstance(prompt, str):
        if not prompt.strip():
            raise UsageError("the prompt is empty")
        return (Message("user", prompt),)
    if isinstance(prompt, (Message, Mapping)):
        prompt = [prompt]
    if isinstance(prompt, (list, tuple)) and prompt:
        turns = tuple(_as_message(turn) for turn in prompt)
        if all(turn.is_empty for turn in turns):
            raise UsageError("the prompt is empty")
        return turns
    raise UsageError(f"a prompt is a string or a list of messages, not {prompt!r}")


def _as_message(turn: Message | Mapping[str, Any]) -> Message:
    if isinstance(turn, Message):
        return turn
    if isinstance(turn, Mapping):
        return Message.read(turn)
    raise UsageError(f"a prompt is a string or a list of messages, not a list with {turn!r:.200}")
