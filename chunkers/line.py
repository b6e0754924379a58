"""`LineChunker`: a chunk a line; and its base class, which `ParagraphChunker` shares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from streamval.chunkers.base import TextChunker


class NewlineChunker(TextChunker):
    """Cuts after `newlines` line breaks with nothing but whitespace between them.

    A line break is a newline; the carriage return of a CRLF counts as whitespace before it.
    """

    keep_indent = True
    newlines: ClassVar[int]

    _seen = 0
    _in_text = False

    def cuts(self, delta: str) -> Iterator[int]:
        """Yield the offset after each newline that completes a gap."""
        start = 0
        while (newline := delta.find("\n", start)) >= 0:
            if not delta[start:newline].isspace() and newline > start:
                self._in_text, self._seen = True, 0
            self._seen += 1
            start = newline + 1
            if self._in_text and self._seen >= self.newlines:
                self._in_text = False
                yield start
        if start < len(delta) and not delta[start:].isspace():
            self._in_text, self._seen = True, 0

    def restart(self) -> None:
        """Reset: no text is pending."""
        self._in_text, self._seen = False, 0


class LineChunker(NewlineChunker):
    """Cuts at line breaks; blank lines are separators, an indent belongs to its line.

    Example:
        >>> [chunk.text for chunk in LineChunker().feed("if x:\\n    y\\n\\nz")]
        ['if x:', '    y']
    """

    grain = 2
    newlines = 1
