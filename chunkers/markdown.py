"""`MarkdownChunker`: a chunk a Markdown block."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.token import Token

from streamval.chunkers.base import PendingChunker
from streamval.types.chunks import Chunk
from streamval.types.text import without_halves

_ENDED_BY_BLANK = {"paragraph_open", "table_open"}
_ENDED_AT_ONCE = {"heading_open", "hr"}

EAGER_CHARS = 1024
"""A longer pending block is parsed again only after it has grown by an eighth, so
that even a list or a fence without end costs linear time."""

EAGER_LINES = 128
"""The same in the middle of a block: up to so many characters it is parsed at each line, then at blank lines."""


class MarkdownChunker(PendingChunker):
    """Cuts between the blocks of CommonMark with tables; a code fence is one chunk.

    markdown-it-py finds the blocks. It parses the text since the last chunk, at line ends only. A
    block is complete when the next block begins, or earlier where its end
    is certain: a heading, a rule, a closed fence, a paragraph or table before a blank line.

    Args:
        max_chars: As in `TextChunker`.

    Example:
        >>> chunker = MarkdownChunker()
        >>> text = "# Sea\\n\\nIt is\\nblue.\\n\\n```\\na = 1\\n\\nb = 2\\n```\\n"
        >>> [chunk.text for chunk in chunker.feed(text)]
        ['# Sea', 'It is\\nblue.', '```\\na = 1\\n\\nb = 2\\n```']
    """

    grain = 3
    keep_indent = True

    def __init__(self, *, max_chars: int | None = None) -> None:
        super().__init__(max_chars=max_chars)
        self._ask_at = 0
        self._is_blank = True  # the line so far

    def advance(self, delta: str) -> list[Chunk]:
        """Look for complete blocks at line ends."""
        chunks: list[Chunk] = []
        *lines, rest = delta.split("\n")
        for line in lines:
            self.keep(line + "\n")
            is_blank = self._is_blank and not line.strip()
            self._is_blank = True
            if self._length >= self._ask_at or (is_blank and self._length <= EAGER_CHARS):
                chunks += self._complete_blocks()
        self.keep(rest)
        self._is_blank = self._is_blank and not rest.strip()
        return chunks

    def flush(self) -> list[Chunk]:
        """Return the blocks that are left."""
        chunks = self._cut(_blocks(self.pending()))
        return chunks + super().flush()

    def restart(self) -> None:
        """Parse at the next line end."""
        self._ask_at = 0

    def _complete_blocks(self) -> list[Chunk]:
        pending = self.pending()
        blocks = _blocks(pending)
        chunks: list[Chunk] = []
        if blocks:
            chunks = self._cut(blocks if _is_over(blocks[-1], pending) else blocks[:-1])
        self._ask_at = self._length + self._length // 8 if self._length > EAGER_LINES else 0
        return chunks

    def _cut(self, blocks: list[Token]) -> list[Chunk]:
        """Return a chunk for each block. Text outside blocks (a link definition) joins the next one."""
        ends = _line_ends(self.pending())
        chunks: list[Chunk] = []
        for block in blocks:
            assert block.map is not None
            end = ends[min(block.map[1], len(ends)) - 1]
            chunks += self.emit(ends[-1] - end)
        return chunks


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


_PARSER = _parser()


def _blocks(text: str) -> list[Token]:
    """Return the tokens that open a top-level block, each with the lines it spans."""
    # The parser takes a lone carriage return for a line break; here it is whitespace.
    lines = re.sub(r"\r(?!\n)", " ", without_halves(text))
    return [t for t in _PARSER.parse(lines) if t.level == 0 and t.nesting >= 0 and t.map]


def _line_ends(text: str) -> list[int]:
    ends = [at + 1 for at, char in enumerate(text) if char == "\n"]
    return ends if ends and ends[-1] == len(text) else [*ends, len(text)]


def _is_over(block: Token, pending: str) -> bool:
    """Return whether the last block is complete: no further line can belong to it."""
    if block.type in _ENDED_AT_ONCE:
        return True
    if block.type in _ENDED_BY_BLANK:
        return bool(re.search(r"\n[^\S\n]*\n$", pending))
    if block.type == "fence":
        assert block.map is not None
        lines = pending.split("\n")[block.map[0] : block.map[1]]
        mark = re.escape(block.markup[0])
        closing = rf" {{0,3}}{mark}{{{len(block.markup)},}}\s*"
        return len(lines) > 1 and re.fullmatch(closing, lines[-1]) is not None
    return False
