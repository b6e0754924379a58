"""A delta: a piece of a backend's output, or a report about the generation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamval.types.results import Usage
from streamval.types.thunk import GenerationMetadata

MAX_REFUSAL = 1000
"""Characters of a refusal that are kept."""


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of output. A backend may yield bare strings instead.

    Attributes:
        text: The generated text (bytes, for sound); empty if the delta only reports.
        usage: Tokens of this generation so far, as the backend counts them; the last report counts.
        finish_reason: Why the model stopped, in its last delta: `"stop"`, `"length"`, …
        refusal: A piece of the model's refusal to answer. It is not part of the output.
    """

    text: str = ""
    usage: Usage | None = None
    finish_reason: str | None = None
    refusal: str | None = None


def content_of(delta: object) -> Any:
    """Return the content of a delta: text, or bytes of sound. The caller checks which."""
    return delta.text if isinstance(delta, Delta) else delta


def note(delta: Delta, known: GenerationMetadata) -> None:
    """Add a delta's usage, finish reason and refusal to the metadata."""
    known.usage = delta.usage or known.usage
    if delta.refusal:
        known.refusal += str(delta.refusal)[: MAX_REFUSAL - len(known.refusal)]
        known.finish_reason = "refusal"  # OpenAI's own is "stop"
    elif not known.refusal:
        known.finish_reason = delta.finish_reason or known.finish_reason
