"""`RegexChunker`: cuts wherever a pattern matches."""

from __future__ import annotations

import regex

from streamval.chunkers.base import PendingChunker
from streamval.errors import ChunkerError, UsageError
from streamval.types.chunks import Chunk

LOOKBEHIND = 64
"""Characters before the undecided text that a lookbehind in the pattern can see."""

PATIENCE = 2.0
"""Seconds that a search may take. A pattern such as ``(a|aa)+$`` can take years."""


class RegexChunker(PendingChunker):
    r"""Cuts after each match of a pattern.

    A match counts only when more text cannot change it (`regex`'s partial matching decides this): a
    `\n+` is over when something else than a newline follows. The match belongs to the chunk
    before it, except for whitespace at its end. To cut before a match, use a lookahead.

    Args:
        pattern: The regular expression that ends a chunk.
        max_chars: As in `TextChunker`.

    Raises:
        UsageError: If the pattern is not a regular expression.

    Example:
        >>> [chunk.text for chunk in RegexChunker(r";\s*").feed("a; b;c;d")]
        ['a;', 'b;', 'c;']
    """

    def __init__(self, pattern: str, *, max_chars: int | None = None) -> None:
        super().__init__(max_chars=max_chars)
        try:
            self._pattern = regex.compile(pattern)
        except regex.error as error:
            raise UsageError(f"{pattern!r} is not a regular expression: {error}") from None
        self._window = ""
        self._from = 0

    def advance(self, delta: str) -> list[Chunk]:
        """Search the undecided text."""
        self.keep(delta)
        self._window += delta
        chunks: list[Chunk] = []
        while True:
            match = self._search()
            if match is None:
                self._from = len(self._window)
                break
            if match.partial or match.end() == len(self._window):
                self._from = match.start()
                break
            chunks += self.emit(len(self._window) - match.end())
            # An empty match must not be found again.
            self._from = match.end() if match.end() > match.start() else match.end() + 1
        seen = max(self._from - LOOKBEHIND, 0)
        self._window, self._from = self._window[seen:], self._from - seen
        return chunks

    def _search(self) -> regex.Match[str] | None:
        try:
            return self._pattern.search(self._window, self._from, partial=True, timeout=PATIENCE)
        except TimeoutError:
            raise ChunkerError(
                f"the pattern {self._pattern.pattern!r} took more than {PATIENCE:g} seconds; write it "
                "without a repetition inside of a repetition"
            ) from None

    def restart(self) -> None:
        """Search only the text that follows."""
        self._window, self._from = "", 0
