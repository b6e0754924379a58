"""Text that grows piece by piece."""

from __future__ import annotations

from typing import TYPE_CHECKING, AnyStr, Generic

if TYPE_CHECKING:
    from collections.abc import Callable

BLOCK = 512


class Transcript(Generic[AnyStr]):
    """Collects text, or bytes, at the price of a list's `append`, and of a byte or so a character.

    `io.StringIO` does neither on every Python: on 3.11 it keeps each piece that was written as an
    object of its own, some fifty bytes for a token.

    Example:
        >>> text = Transcript("It ")
        >>> text.write("rains.")
        >>> text.getvalue()
        'It rains.'
    """

    __slots__ = ("_blocks", "_empty", "_recent", "write")

    def __init__(self, text: AnyStr) -> None:
        self._empty: AnyStr = text[:0]
        self._blocks: list[AnyStr] = [text] if text else []
        self._recent: list[AnyStr] = []
        self.write: Callable[[AnyStr], None] = self._recent.append

    def compact(self) -> None:
        """Join what has gathered, if it is many pieces: to be called now and then."""
        if len(self._recent) >= BLOCK:
            self._blocks.append(self._empty.join(self._recent))
            self._recent.clear()

    def getvalue(self) -> AnyStr:
        """All of it."""
        return self._empty.join(self._blocks + self._recent)
