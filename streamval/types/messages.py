"""A message of a conversation, with everything that it came with; and a whole call of a tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

from streamval.errors import UsageError

Role: TypeAlias = Literal["system", "developer", "user", "assistant", "tool", "function"]

_ROLES = frozenset(get_args(Role))
_NOTHING: Mapping[str, Any] = MappingProxyType({})

_OPAQUE = {"thinking": "thinking_blocks", "redacted_thinking": "thinking_blocks"}
"""The fields of a message in which blocks of opaque reasoning go back: LiteLLM's for Anthropic's."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A whole call of a tool.

    Attributes:
        index: Which call of the answer this is, from 0.
        id: The provider's id; made here where it gave none.
        name: The name of the tool.
        arguments: The arguments, parsed.
        raw: The arguments as the model wrote them; ``{}`` where it wrote nothing.
        signature: Google's signature of the thought that led to the call; it goes back with it.
    """

    index: int
    id: str
    name: str
    arguments: Any
    raw: str
    signature: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the call as OpenAI's chat completions write it.

        Example:
            >>> ToolCall(0, "c1", "now", {}, "{}").as_dict()
            {'id': 'c1', 'type': 'function', 'function': {'name': 'now', 'arguments': '{}'}}
        """
        called = {"name": self.name, "arguments": self.raw}
        call = {"id": self.id, "type": "function", "function": called}
        if self.signature is not None:
            call["extra_content"] = {"google": {"thought_signature": self.signature}}
        return call


@dataclass(frozen=True, slots=True, repr=False)
class Message:
    """One turn of a conversation. It keeps everything that it came with.

    Attributes:
        role: The role of the speaker.
        content: The text; of a content in parts, that of its parts of text.
        parts: The content as it came, where it is not one text: pictures, audio, files, …
        fields: All other fields, as OpenAI's chat completions name them: `name`, `tool_calls`, `tool_call_id`,
            `reasoning_content`, and those of a provider. They go to the backend as they are.

    Example:
        >>> Message("tool", "18 °C", fields={"tool_call_id": "c1"}).as_dict()
        {'role': 'tool', 'content': '18 °C', 'tool_call_id': 'c1'}
    """

    role: Role
    content: str
    parts: tuple[Mapping[str, Any], ...] = field(default=(), kw_only=True, hash=False)
    fields: Mapping[str, Any] = field(default_factory=lambda: _NOTHING, kw_only=True, hash=False)

    def __repr__(self) -> str:
        more = "".join(
            f", {name}={value!r}"
            for name, value in (("parts", self.parts), ("fields", dict(self.fields)))
            if value
        )
        return f"Message(role={self.role!r}, content={self.content!r}{more})"

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Message:
        """Return the message that a dictionary of OpenAI's chat completions describes.

        Raises:
            UsageError: If it has no role that is known, or its content is neither text nor parts.

        Example:
            >>> Message.read({"role": "user", "content": "Hi", "name": "Ann"})
            Message(role='user', content='Hi', fields={'name': 'Ann'})
        """
        fields = dict(written)
        role, content = fields.pop("role", None), fields.pop("content", None)
        is_list = isinstance(content, (list, tuple))
        parts = tuple(content) if is_list and content is not None else ()
        if (
            role not in _ROLES
            or not (content is None or isinstance(content, str) or is_list)
            or not all(isinstance(part, Mapping) for part in parts)
            or (content is None and role not in ("assistant", "function"))
        ):
            raise UsageError(
                "a message needs a role ('system', 'user', 'assistant' or 'tool'), and a text or a list of "
                f"parts as content, not {written!r:.500}"
            )
        text = content if isinstance(content, str) else text_of(parts)
        return cls(role, text, parts=parts, fields=fields or _NOTHING)

    def as_dict(self) -> dict[str, Any]:
        """Return the message as OpenAI's chat completions write it."""
        content: Any = [dict(part) for part in self.parts] if self.parts else self.content
        if not content and self.role == "assistant" and self.fields:
            content = None
        return {"role": self.role, "content": content, **self.fields}

    @property
    def is_plain(self) -> bool:
        """Whether it is only a role and a text."""
        return not self.parts and not self.fields

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing."""
        return self.is_plain and not self.content.strip()


def text_of(parts: Sequence[Mapping[str, Any]]) -> str:
    """Return the text among the parts of a content.

    Example:
        >>> text_of([{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {}}])
        'What is this?'
    """
    return "".join(part["text"] for part in parts if isinstance(part.get("text"), str))


def texts_in(block: Mapping[str, Any]) -> list[str]:
    """Return the texts of a block of opaque reasoning that can be read: Anthropic's, OpenRouter's, Responses'.

    Example:
        >>> texts_in({"type": "reasoning", "summary": [{"text": "Hm."}], "encrypted_content": "x"})
        ['Hm.']
    """
    parts = [*(block.get("summary") or ()), *(block.get("content") or ())]
    said = [block.get("thinking"), block.get("text")]
    said += [part.get("text") for part in parts if isinstance(part, Mapping)]
    return [one for one in said if isinstance(one, str) and one]


def assistant_message(
    text: str,
    calls: Sequence[ToolCall] = (),
    reasoning: str = "",
    opaque: Sequence[Mapping[str, Any]] = (),
    places: Sequence[int] = (),
) -> Message:
    """Return an answer as a message that goes back to its model.

    Opaque reasoning goes back as it came, and where it came (`places`, see `StreamResult.opaque_places`), if its
    protocol has an order of items. Reasoning in the clear goes back only together with calls of
    tools, which some providers demand; elsewhere they refuse or ignore it.

    Example:
        >>> assistant_message("", [ToolCall(0, "c1", "now", {}, "{}")], "I need the time.").fields["reasoning_content"]
        'I need the time.'
    """
    fields: dict[str, Any] = {}
    if calls:
        fields["tool_calls"] = [call.as_dict() for call in calls]
    for block, place in zip(opaque, places or [0] * len(opaque), strict=True):
        kind = str(block.get("type"))
        other = "reasoning_details" if kind.startswith("reasoning.") else "reasoning_items"
        name = _OPAQUE.get(kind, other)
        fields.setdefault(name, []).append(dict(block))
        if name == "reasoning_items" and any(places):
            fields.setdefault("reasoning_places", []).append(place)
    if reasoning and calls and not opaque:
        fields["reasoning_content"] = reasoning
    return Message("assistant", text, fields=fields or _NOTHING)


def refuse_what_is_not_text(messages: Sequence[Message], receiver: str) -> None:
    """Refuse messages that have more than text, for a backend that can send nothing else.

    Raises:
        UsageError: For the first such part or field; its message names it.

    Example:
        >>> refuse_what_is_not_text([Message("tool", "18", fields={"tool_call_id": "c1"})], "the embedded model")
        Traceback (most recent call last):
        streamval.errors.UsageError: the embedded model takes text only: message 0 has tool_call_id; leave it out, or choose another backend
    """
    for at, message in enumerate(messages):
        kinds = [str(part.get("type")) for part in message.parts]
        found = [kind for kind in kinds if kind != "text"] or [
            name for name, value in message.fields.items() if name != "name" and value
        ]
        if not found and message.role in ("tool", "function"):
            found = [f"the role {message.role!r}"]
        if found:
            raise UsageError(
                f"{receiver} takes text only: message {at} has {found[0]}; leave it out, or choose "
                "another backend"
            )
