"""`Backend`: what it is asked (`GenerationRequest`), and what it answers (`Delta`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from streamval import bridge
from streamval.backends.generation import Generation
from streamval.backends.options import endpoint_options, stall_timeout_of
from streamval.backends.secrets import masked
from streamval.chunkers.base import not_text
from streamval.errors import UsageError
from streamval.types.components import CBlock, Component, render
from streamval.types.context import Context, Message
from streamval.types.thunk import ModelOutputThunk

if TYPE_CHECKING:
    from reactivex import Observable

    from streamval.types.results import Usage
    from streamval.types.thunk import GenerationMetadata

Prompt: TypeAlias = (
    "str | CBlock | Component | Message | Mapping[str, str] | Sequence[Message | Mapping[str, str]]"
)
"""What a run may be asked: a text, a component, a message, or a conversation (of `Message` or of
dicts with `role` and `content`)."""


@dataclass(frozen=True, slots=True, repr=False)
class GenerationRequest:
    """What a backend is asked to generate.

    Attributes:
        messages: The conversation.
        prefix: Text the output begins with already; only what follows is generated. `None` to
            begin at the beginning.
        format: A pydantic model that the output should be an instance of, or `None`.
        options: `temperature`, `seed`, `max_tokens` and whatever else the backend knows.
        attempt: From 1.
    """

    messages: tuple[Message, ...]
    prefix: str | None = None
    format: type[Any] | None = None
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    attempt: int = 1

    def __repr__(self) -> str:  # without the keys among the options
        return (
            f"GenerationRequest({self.messages!r}, prefix={self.prefix!r}, format={self.format!r}, "
            f"options={masked(self.options)!r}, attempt={self.attempt})"
        )


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of output. A backend may yield bare strings instead.

    Attributes:
        text: What was generated (bytes, where it is sound); empty where a delta only reports.
        usage: Tokens of this generation so far, as the backend counts them; the last one counts.
        finish_reason: Why the model stopped, in its last delta: `"stop"`, `"length"`, …
        refusal: A piece of what the model says where it refuses to answer, which is no output.
    """

    text: str = ""
    usage: Usage | None = None
    finish_reason: str | None = None
    refusal: str | None = None


class Backend(ABC):
    """Something that generates text as a stream.

    A subclass writes `stream`, an async generator. It may be closed at any `yield` or `await`,
    and must then stop generating: a ``finally`` (or an ``async with`` around the connection) is
    where it does.

    Attributes:
        model: A name for events.
        supports_prefix: Whether it can go on from `GenerationRequest.prefix`.
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
    options: Mapping[str, Any] = MappingProxyType({})
    adapters: Mapping[str, Mapping[str, Any]] = MappingProxyType({})

    def going(self, options: Mapping[str, Any]) -> Backend:
        """This backend for a judge of a run with such options: it asks the same endpoint.

        Args:
            options: The run's. Those that shape its output are not the judge's.

        Returns:
            This backend, or a copy of it with the others as its own.
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
        """Generate. Written as an async generator.

        Args:
            request: What is asked.

        Yields:
            Pieces of text as they come, none of them empty unless they report usage.

        Raises:
            BackendError: If it cannot generate, or stops halfway.
        """

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Refuse options that cannot work. By default none is refused.

        Raises:
            UsageError: If one cannot.
        """
        del options

    def request(self, prompt: Prompt, **options: Any) -> GenerationRequest:
        """A request for `prompt`, with this backend's options unless given others.

        Raises:
            UsageError: If `prompt` is no prompt, or `check_options` refuses an option.
        """
        self.check_options(options)
        return GenerationRequest(as_messages(prompt), options={**self.options, **options})

    def observe(
        self, prompt: Prompt | GenerationRequest, *, stall_timeout: float | None = None
    ) -> Observable[str]:
        """The token stream as a cold observable: each subscription generates anew.

        Args:
            prompt: What to ask, or a whole request.
            stall_timeout: Seconds without a delta before it fails; `None` for never.

        Returns:
            The deltas' text (or bytes, of a backend that yields sound). Disposing closes the
            backend.
        """
        request = prompt if isinstance(prompt, GenerationRequest) else self.request(prompt)
        return bridge.from_async_iterable(
            lambda: self.stream(request), read=_something_said, stall_timeout=stall_timeout
        )

    async def generate_from_context(
        self,
        action: Prompt,
        ctx: Context,
        *,
        format: type[Any] | None = None,
        model_options: Mapping[str, Any] | None = None,
    ) -> tuple[ModelOutputThunk, Context]:
        """Ask, after the turns that `ctx` lets a generation see.

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

        def start(known: GenerationMetadata) -> Generation:
            def read(delta: str | Delta) -> str | None:
                if isinstance(delta, Delta):
                    note(delta, known)
                return text_of(delta) or None

            return Generation(
                known,
                lambda: bridge.from_async_iterable(
                    lambda: self.stream(request), read=read, stall_timeout=timeout
                ),
            )

        thunk = ModelOutputThunk.generating(self.model, start)
        for message in asked:
            ctx = ctx.add(message)
        return thunk, ctx.add(thunk)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"


MAX_REFUSAL = 1000
"""Characters of a refusal that are kept."""


def note(delta: Delta, known: GenerationMetadata) -> None:
    """Note what a delta tells of its generation besides the text."""
    known.usage = delta.usage or known.usage
    if delta.refusal:
        known.refusal += str(delta.refusal)[: MAX_REFUSAL - len(known.refusal)]
        known.finish_reason = "refusal"  # OpenAI's own is "stop"
    elif not known.refusal:
        known.finish_reason = delta.finish_reason or known.finish_reason


def text_of(delta: str | Delta) -> str:
    """A delta's text.

    Raises:
        DeltaTypeError: If it is neither a string nor a `Delta` of text.
    """
    text = delta.text if isinstance(delta, Delta) else delta
    if not isinstance(text, str):
        raise not_text(text)
    return text


def said_in(delta: object) -> Any:
    """What a delta says: text, or bytes of sound. The caller checks which."""
    return delta.text if isinstance(delta, Delta) else delta


def _something_said(delta: object) -> Any:
    if delta is None:
        raise not_text(delta)
    said = said_in(delta)
    return None if said in ("", b"") else said


def as_messages(prompt: Prompt) -> tuple[Message, ...]:
    """A prompt as messages.

    Raises:
        UsageError: If it is no prompt, or an empty one.

    Example:
        >>> as_messages("Hi")
        (Message(role='user', content='Hi'),)
    """
    if not isinstance(prompt, str) and isinstance(prompt, (CBlock, Component)):
        prompt = render(prompt)
    if isinstance(prompt, str):
        if not prompt.strip():
            message = "the prompt is empty"
            raise UsageError(message)
        return (Message("user", prompt),)
    if isinstance(prompt, (Message, Mapping)):
        prompt = [prompt]
    if isinstance(prompt, (list, tuple)) and prompt:
        turns = tuple(_as_message(turn) for turn in prompt)
        if not any(turn.content.strip() for turn in turns):
            message = "the prompt is empty"
            raise UsageError(message)
        return turns
    message = f"a prompt is a string or a list of messages, not {prompt!r}"
    raise UsageError(message)


def _as_message(turn: Message | Mapping[str, str]) -> Message:
    if isinstance(turn, Message):
        return turn
    if isinstance(turn, Mapping):
        match dict(turn):
            case {"role": "system" | "user" | "assistant" as role, "content": str(content)}:
                return Message(role, content)
    message = (
        "a message needs a role ('system', 'user' or 'assistant') and a string as content, "
        f"not {turn!r}"
    )
    raise UsageError(message)
