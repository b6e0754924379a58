"""A chunk: the piece of output that requirements judge and subscribers receive."""

from __future__ import annotations

from dataclasses import dataclass

from streamval.types.frozen import setters
from streamval.types.shown import html_of


@dataclass(frozen=True, slots=True, init=False)
class Chunk:
    """A verbatim piece of a model's output.

    Joining `separator + text` over all chunks of an attempt gives back its raw text, less
    trailing whitespace.

    Attributes:
        text: The piece itself, never starting or ending in a line break.
        index: Position in the output, from 0.
        start: Offset of the first character in the attempt's raw text.
        end: Offset just past the last one, so that ``raw[start:end] == text``.
        separator: The raw text between the previous chunk and this one.
        attempt: The attempt that wrote it, from 1.

    Example:
        >>> Chunk("Hello.", index=0, start=1, end=7, separator=" ").text
        'Hello.'
    """

    text: str
    index: int
    start: int
    end: int
    separator: str = ""
    attempt: int = 1

    def __init__(
        self,
        text: str,
        index: int,
        start: int,
        end: int,
        separator: str = "",
        attempt: int = 1,
    ) -> None:
        _set_text(self, text)
        _set_index(self, index)
        _set_start(self, start)
        _set_end(self, end)
        _set_separator(self, separator)
        _set_attempt(self, attempt)

    _repr_html_ = html_of


_set_text, _set_index, _set_start, _set_end, _set_separator, _set_attempt = setters(Chunk)
