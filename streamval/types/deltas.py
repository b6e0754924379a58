"""A delta: a piece of a backend's output, or a report about the generation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from streamval.types.results import Usage
from streamval.types.thunk import GenerationMetadata

MAX_REFUSAL = 1000
"""Characters of a refusal that are kept."""

MAX_OPAQUE = 256
"""Blocks of signed or encrypted reasoning that are kept."""


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of a call of a tool.

    Attributes:
        index: Which call of the answer this is, from 0.
        id: The provider's id of the call; it may come with any piece.
        name: The name of the tool, or a piece of it.
        arguments: A piece of the arguments, which are JSON.
        signature: Google's signature of the thought that led to the call; it has to go back with it.
    """

    index: int = 0
    id: str | None = None
    name: str | None = None
    arguments: str = ""
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of output. A backend may yield bare strings instead, for text.

    Attributes:
        text: A piece of the answer (bytes, for sound); empty if the delta has none.
        reasoning: A piece of the reasoning. It precedes the text of the same delta.
        tool_call: A piece of a call of a tool. It follows the text of the same delta.
        usage: Tokens of this generation so far, as the backend counts them; the last report counts.
        finish_reason: Why the model stopped, in its last delta: `"stop"`, `"length"`, …
        refusal: A piece of the model's refusal to answer. It is not part of the output.
        opaque: A block of reasoning that is signed or encrypted, as the provider sent it. It has to go back
            to the provider unchanged, or not at all.
    """

    text: str = ""
    _: KW_ONLY
    reasoning: str = ""
    tool_call: ToolCallDelta | None = None
    usage: Usage | None = None
    finish_reason: str | None = None
    refusal: str | None = None
    opaque: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        shown = [repr(self.text)] if self.text else []
        names = ("reasoning", "tool_call", "usage", "finish_reason", "refusal", "opaque")
        shown += [f"{name}={value!r}" for name in names if (value := getattr(self, name))]
        return f"Delta({', '.join(shown)})"


def content_of(delta: object) -> Any:
    """Return the content of a delta: text, or bytes of sound. The caller checks which."""
    return delta.text if isinstance(delta, Delta) else delta


def note(delta: Delta, known: GenerationMetadata) -> None:
    """Add a delta's usage, finish reason, refusal and opaque reasoning to the metadata."""
    known.usage = delta.usage or known.usage
    if delta.tool_call is not None:
        known.calls = max(known.calls, delta.tool_call.index + 1)
    if delta.opaque is not None and len(known.opaque) < MAX_OPAQUE:
        known.opaque = (*known.opaque, delta.opaque)
        place = 0 if known.deltas == known.reasoning_deltas else 1 + known.calls
        known.opaque_places = (*known.opaque_places, place)
    if delta.refusal:
        known.refusal += str(delta.refusal)[: MAX_REFUSAL - len(known.refusal)]
        known.finish_reason = "refusal"  # OpenAI's own is "stop"
    elif not known.refusal:
        known.finish_reason = delta.finish_reason or known.finish_reason
