"""`ParagraphChunker`: a chunk a paragraph."""

from __future__ import annotations

from streamval.chunkers.line import NewlineChunker


class ParagraphChunker(NewlineChunker):
    """Cuts at blank lines, which may hold spaces or carriage returns.

    Example:
        >>> [chunk.text for chunk in ParagraphChunker().feed("one\\ntwo\\n \\nthree")]
        ['one\\ntwo']
    """

    grain = 3
    newlines = 2
