"""Reads the deltas of one generation: their text, reasoning and calls, usage, finish reason and refusal."""

from __future__ import annotations

from typing import Any

from streamval.chunkers.base import not_sound, not_text
from streamval.types.deltas import Delta, content_of, note
from streamval.types.results import Usage
from streamval.types.text import Mender
from streamval.types.thunk import GenerationMetadata


class DeltaReader:
    """Takes deltas, and returns their text; a `Delta` where they have reasoning or calls of tools as well.

    Counts them, and keeps the metadata that they report. Half of a surrogate pair at the end of a text waits for
    the other half.

    Args:
        model: The model's name.
        kind: The type of the pipeline's content: `str`, or `bytes` for sound.
        reasoning: Whether the reasoning is wanted.

    Attributes:
        known: The metadata of the generation.

    Example:
        >>> reader = DeltaReader("m", str)
        >>> [reader.read(delta) for delta in ("Hi.", Delta(reasoning="Hm."), Delta(finish_reason="stop"))]
        ['Hi.', Delta(reasoning='Hm.'), None]
        >>> reader.known.finish_reason, reader.usage.completion_tokens
        ('stop', 2)
    """

    def __init__(self, model: str, kind: type[str | bytes], *, reasoning: bool = True) -> None:
        self.known = GenerationMetadata(model)
        self._kind = kind
        self._mender = Mender()
        self._reasoning = reasoning

    def read(self, delta: object) -> Any:
        """Return the content of a delta; `None` if it has none yet.

        Raises:
            DeltaTypeError: If its content is not of the pipeline's kind.
        """
        if type(delta) is not self._kind:
            return self._read_other(delta)
        text: Any = delta
        if not text:
            return None
        self.known.deltas += 1
        # A call of `Mender.feed` for each token would cost as much as half of this function.
        if self._kind is str and (self._mender.half or not text.isascii()):
            return self._mender.feed(text) or None
        return text

    def _read_other(self, delta: object) -> Any:
        """Return the content of a `Delta`, or of a subclass of the pipeline's kind."""
        text: Any = self._content(delta)
        if isinstance(delta, Delta) and (delta.reasoning or delta.tool_call is not None):
            return self._other_channels(delta, text)
        if not text:
            return None
        self.known.deltas += 1
        return (self._mender.feed(text) or None) if self._kind is str else text

    def _other_channels(self, delta: Delta, text: Any) -> Delta | None:
        if not isinstance(delta.reasoning, str):
            raise not_text(delta.reasoning)
        self.known.deltas += 1
        self.known.reasoning_deltas += bool(delta.reasoning)
        if text and self._kind is str:
            text = self._mender.feed(text)
        content = Delta(
            text, reasoning=delta.reasoning if self._reasoning else "", tool_call=delta.tool_call
        )
        return None if content == Delta() else content

    def flush(self) -> str:
        """Return the text that waits for its other half."""
        return self._mender.flush()

    @property
    def usage(self) -> Usage:
        """Tokens so far: as the backend reports them, else the number of deltas."""
        known = self.known
        thought = known.reasoning_deltas or None
        return known.usage or Usage(completion_tokens=known.deltas, reasoning_tokens=thought)

    def _content(self, delta: object) -> Any:
        if isinstance(delta, Delta):
            note(delta, self.known)
        content = content_of(delta)
        return check_kind(content, self._kind) if content != "" else content


def check_kind(content: Any, kind: type[str | bytes]) -> Any:
    """Return `content`, if it has the pipeline's type.

    Raises:
        DeltaTypeError: If it is of another type.
    """
    if not isinstance(content, kind):
        raise not_text(content) if kind is str else not_sound(content)
    return content
