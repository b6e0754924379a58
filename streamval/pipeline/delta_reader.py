"""Reads the deltas of one generation: their text, usage, finish reason and refusal."""

from __future__ import annotations

from typing import Any

from streamval.chunkers.base import not_sound, not_text
from streamval.types.deltas import Delta, content_of, note
from streamval.types.results import Usage
from streamval.types.text import Mender
from streamval.types.thunk import GenerationMetadata


class DeltaReader:
    """Takes deltas and returns their text. Counts them, and keeps the metadata that they report.

    Half of a surrogate pair at the end of a delta waits for the other half.

    Args:
        model: The model's name.
        kind: The type of the pipeline's content: `str`, or `bytes` for sound.

    Attributes:
        known: The metadata of the generation.

    Example:
        >>> reader = DeltaReader("m", str)
        >>> [reader.read(delta) for delta in ("Hi.", Delta(finish_reason="stop"))]
        ['Hi.', None]
        >>> reader.known.finish_reason, reader.usage.completion_tokens
        ('stop', 1)
    """

    def __init__(self, model: str, kind: type[str | bytes]) -> None:
        self.known = GenerationMetadata(model)
        self._kind = kind
        self._mender = Mender()

    def read(self, delta: object) -> Any:
        """Return the text of a delta; `None` if it has none yet.

        Raises:
            DeltaTypeError: If its content is not of the pipeline's kind.
        """
        text: Any = delta if type(delta) is self._kind else self._content(delta)
        if not text:
            return None
        self.known.deltas += 1
        return (self._mender.feed(text) or None) if self._kind is str else text

    def flush(self) -> str:
        """Return the text that waits for its other half."""
        return self._mender.flush()

    @property
    def usage(self) -> Usage:
        """Tokens so far: as the backend reports them, else the number of deltas."""
        return self.known.usage or Usage(completion_tokens=self.known.deltas)

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
