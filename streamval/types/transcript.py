"""Text that grows piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import AnyStr, Generic

BLOCK = 512


class Transcript(Generic[AnyStr]):
    """Collects text or bytes at the cost of a list's `append`, with about a byte a character.

    `io.StringIO` needs more memory on Python 3.11, where it keeps each piece as an
    object, with about fifty bytes for a token.

    Example:
        >>> text = Transcript("It ")
        >>> text.write("rains.")
        >>> text.getvalue()
        'It rains.'
    """

    __slots__ = ("_blocks", "_empty", "_recent", "write")

    def __init__(self, text: AnyStr) -> None:
        self._empty: AnyStr = text[:0]
        self._blocks: tuple[AnyStr, ...] = (text,) if text else ()  # few, and none of a short text
        self._recent: list[AnyStr] = []
        self.write: Callable[[AnyStr], None] = self._recent.append

    def compact(self) -> None:
        """Join the recent pieces, if there are many. Call it now and then."""
        if len(self._recent) >= BLOCK:
            self._blocks += (self._empty.join(self._recent),)
            self._recent.clear()

    def getvalue(self) -> AnyStr:
        """Return the whole text."""
        return self._empty.join(chain(self._blocks, self._recent))
