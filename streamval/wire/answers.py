"""What a writer of answers does, in every protocol."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeAlias

from streamval.types.messages import ToolCall
from streamval.types.results import Usage
from streamval.wire.sse import PING, frame

Contents: TypeAlias = "list[dict[str, Any]]"
"""The contents of frames, in order."""

_REASONS = {
    **{reason: reason for reason in ("stop", "length", "tool_calls", "content_filter")},
    "function_call": "tool_calls",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


class TokenLogprob(NamedTuple):
    """The log probability of a token.

    Attributes:
        end: Where the token ends in the attempt's text.
        token: Its text.
        logprob: The natural logarithm of its probability.
        others: The tokens that might have stood there, as the server sent them; only where nothing has to be judged.
    """

    end: int
    token: str
    logprob: float
    others: Sequence[Mapping[str, Any]] = ()


Logprobs: TypeAlias = Sequence[TokenLogprob]


def finish_reason(given: str | None) -> str:
    """Return a provider's finish reason as OpenAI's chat completions call it; an unknown one is ``stop``.

    Example:
        >>> finish_reason("end_turn"), finish_reason("max_tokens"), finish_reason(None)
        ('stop', 'length', 'stop')
    """
    return _REASONS.get(given or "", "stop")


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer.

    Attributes:
        text: The text.
        reason: Why it ended, as OpenAI's chat completions call it.
        usage: The tokens.
        reasoning: The reasoning.
        calls: The calls of tools.
        refusal: A refusal, in place of the rest.
        logprobs: The log probabilities of the text's tokens.
        annotations: What the upstream says about the text: the addresses that it cites.
        opaque: The blocks of signed or encrypted reasoning.
    """

    text: str = ""
    reason: str = "stop"
    usage: Usage = field(default_factory=Usage)
    reasoning: str = ""
    calls: Sequence[ToolCall] = ()
    refusal: str | None = None
    logprobs: Logprobs = ()
    annotations: Contents = field(default_factory=list)
    opaque: Sequence[Mapping[str, Any]] = ()


class AnswerWriter(ABC):
    """Writes an answer in a protocol. Each method returns the contents of the frames to send.

    Attributes:
        terminator: What is sent behind the last frame.
        ping: What keeps a silent connection alive.
    """

    terminator: ClassVar[str] = ""
    ping: ClassVar[str] = PING

    def adopt(self, fields: Mapping[str, Any]) -> None:
        """Take over marks of the upstream's own frames."""

    @abstractmethod
    def begin(self) -> Contents:
        """Begin the answer."""

    @abstractmethod
    def text(self, text: str, logprobs: Logprobs = ()) -> Contents:
        """Write text."""

    @abstractmethod
    def reasoning(self, text: str) -> Contents:
        """Write reasoning."""

    @abstractmethod
    def tool_calls(self, calls: Sequence[ToolCall]) -> Contents:
        """Write whole calls of tools."""

    def opaque(self, block: Mapping[str, Any]) -> Contents:
        """Write a block of signed or encrypted reasoning of an upstream that speaks this protocol."""
        return []

    def annotate(self, annotations: Contents) -> Contents:
        """Write what the upstream says about the text, in the protocols that have a place for it."""
        return []

    @abstractmethod
    def end(self, reason: str, usage: Usage | None, refusal: str | None = None) -> Contents:
        """End the answer.

        Args:
            reason: Why, as OpenAI's chat completions call it.
            usage: The tokens; `None` where the client has not asked for them.
            refusal: A refusal, in place of the rest.
        """

    @abstractmethod
    def fail(self, error: Mapping[str, Any]) -> Contents:
        """End the answer with an error, as `streamval.wire.errors.error_object` returns it."""

    @abstractmethod
    def note(self, content: Mapping[str, Any]) -> Contents:
        """Write what only our own clients read."""

    @abstractmethod
    def whole(self, answer: Answer) -> dict[str, Any]:
        """Return a whole answer as one object."""


def frames(contents: Sequence[Mapping[str, Any]]) -> str:
    """Return the frames of contents: those with a type are events of that name.

    Example:
        >>> frames([{"type": "ping"}, {"id": "c1"}])
        'event: ping\\ndata: {"type":"ping"}\\n\\ndata: {"id":"c1"}\\n\\n'
    """
    return "".join([frame(one, one.get("type")) for one in contents])
