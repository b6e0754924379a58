"""`WordChunker`: a chunk a word."""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamval.chunkers.base import TextChunker

_SPACE = re.compile(r"\s+")


class WordChunker(TextChunker):
    """Cuts at whitespace; a word is complete once whitespace follows it.

    Example:
        >>> [chunk.text for chunk in WordChunker().feed("so far, so g")]
        ['so', 'far,', 'so']
    """

    grain = 1
    _in_word = False

    def cuts(self, delta: str) -> Iterator[int]:
        """Return the start of each run of whitespace that ends a word."""
        for space in _SPACE.finditer(delta):
            if self._in_word or space.start():
                yield space.start()
            self._in_word = False
        if delta and not delta[-1].isspace():
            self._in_word = True

    def restart(self) -> None:
        """Reset: no word is pending."""
        self._in_word = False
