"""Text that grows piece by piece."""

from __future__ import annotations

BLOCK = 512


class Transcript:
    """Collects text at the price of a list's `append`, and of a byte or so a character.

    `io.StringIO` does neither on every Python: on 3.11 it keeps each piece that was written as an
    object of its own, some fifty bytes for a token.

    Example:
        >>> text = Transcript("It ")
        >>> text.write("rains.")
        >>> text.getvalue()
        'It rains.'
    """

    __slots__ = ("_blocks", "_recent", "write")

    def __init__(self, text: str = "") -> None:
        self._blocks = [text] if text else []
        self._recent: list[str] = []
        self.write = self._recent.append

    def compact(self) -> None:
        """Join what has gathered, if it is many pieces: to be called now and then."""
        if len(self._recent) >= BLOCK:
            self._blocks.append("".join(self._recent))
            self._recent.clear()

    def getvalue(self) -> str:
        """All of it."""
        return "".join([*self._blocks, *self._recent])
