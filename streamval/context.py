"""What a requirement is asked about: the conversation, ending in the model's output."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

Role: TypeAlias = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation.

    Attributes:
        role: Who speaks.
        content: What is said.
    """

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class ModelOutputThunk:
    """A model's output.

    Attributes:
        value: The text, or `None` while it is not there yet.
    """

    value: str | None = None

    def is_computed(self) -> bool:
        """Whether the text is there."""
        return self.value is not None

    def __str__(self) -> str:
        return self.value or ""


@dataclass(frozen=True, slots=True)
class Context:
    """A conversation and, once there is one, the output at its end. Immutable.

    Attributes:
        messages: The turns, oldest first.
        output: The model's output.

    Example:
        >>> ctx = Context((Message("user", "Hi"),)).with_output("Hello.")
        >>> ctx.last_output().value
        'Hello.'
    """

    messages: tuple[Message, ...] = ()
    output: ModelOutputThunk | None = None

    def with_output(self, text: str) -> Context:
        """The same conversation, ending in `text`."""
        return replace(self, output=ModelOutputThunk(text))

    def last_output(self) -> ModelOutputThunk | None:
        """The output at the end, if there is one yet."""
        return self.output
