"""Requirements for form: Python in code blocks, lists and tables of Markdown."""

from __future__ import annotations

import ast
import re
import warnings
from functools import cache
from typing import Any

from markdown_it import MarkdownIt

from streamval.requirements.base import Requirement
from streamval.requirements.chunk_rule import ChunkRule, failed, quoted
from streamval.types.results import PASS, PartialValidationResult

# A fence may stand in a list, behind its markers.
_FENCE = re.compile(r"\s*(?:(?:[-*+]|\d{1,9}[.)])\s+)*(`{3,}|~{3,})")
_BREAK = re.compile(r"\s{0,3}([-*_])(?:\s*\1){2,}\s*")
_DELIMITERS = re.compile(r"(?=[ \t|:]*-)[ \t|:-]*")
# A bar that no backslash escapes separates two cells (GitHub Flavored Markdown, section 4.10).
_CELL_END = re.compile(r"(?<!\\)\|")
_ITEM = re.compile(r"(\s*)(?:(\d{1,9})[.)]|([-*+]))\s")


class ValidPython(ChunkRule):
    """Requires that code blocks marked as Python parse. Judges a block when its fence closes.

    Each block is one chunk here, so with ``hold=True`` no part of it is delivered before it is
    judged.
    """

    judges = str

    def __init__(self, **options: Any) -> None:
        super().__init__("Python in code blocks is valid", **{"chunking": "markdown", **options})

    def check(self, chunk: str) -> PartialValidationResult:
        """Parse the block, if it is Python."""
        complaint = _python_complaint(chunk)
        return PASS if complaint is None else failed(complaint)

    def check_whole(self, text: str) -> PartialValidationResult:
        """Parse every block of the text."""
        return self.check(text)


def valid_python(**options: Any) -> Requirement:
    """Require that Python in fenced code blocks (```` ```python ````) has no syntax error.

    Example:
        >>> valid_python().description
        'Python in code blocks is valid'
    """
    return ValidPython(**options)


class ReadableMarkdown(ChunkRule):
    """Requires correct numbers and one bullet in lists, and a delimiter row and even rows in tables.

    Judges line by line: every verdict is pass or fail, so `hold` has no effect.
    """

    judges = str

    verbatim = True  # a blank line ends a table

    def __init__(self, **options: Any) -> None:
        super().__init__(
            "lists and tables are well-formed Markdown", **{"chunking": "line", **options}
        )
        self._fence = ""
        self._row: int | None = None
        self._columns: int | None = None
        self._lists: tuple[tuple[int, str, int], ...] = ()

    def check(self, chunk: str) -> PartialValidationResult:
        """Judge the lines of the chunk."""
        complaint = self._first_complaint(_lines(chunk))
        return PASS if complaint is None else failed(complaint)

    def check_whole(self, text: str) -> PartialValidationResult:
        """Judge all lines again, as the text may end inside a code fence."""
        fresh = ReadableMarkdown()
        complaint = fresh._first_complaint(text.splitlines())
        if complaint is None and fresh._fence:
            complaint = "a code fence is not closed"
        return PASS if complaint is None else failed(complaint)

    def _first_complaint(self, lines: list[str]) -> str | None:
        return next((found for line in lines if (found := self._complaint(line))), None)

    def _complaint(self, line: str) -> str | None:
        """Return what is wrong with a line, after those before it."""
        fence = _FENCE.match(line)
        if self._fence:
            if fence and fence[1].startswith(self._fence) and not line.strip(" `~"):
                self._fence = ""
            return None
        if fence:
            self._fence = fence[1]
            return None
        if line.lstrip().startswith("|"):
            return self._table_complaint(line)
        self._row = self._columns = None
        if _BREAK.fullmatch(line):
            self._lists = ()
            return None
        return self._list_complaint(line)

    def _table_complaint(self, line: str) -> str | None:
        cells = len(_CELL_END.split(line.strip().removeprefix("|").removesuffix("|")))
        if self._columns is not None and cells != self._columns:
            return f"a table of {self._columns} columns has a row of {cells}: {quoted(line)}"
        if self._row is None:
            self._row = cells
        elif self._columns is None:
            if not _DELIMITERS.fullmatch(line):
                return f"a table needs a row of dashes under its head, not {quoted(line)}"
            if cells != self._row:
                return f"a table's head has {self._row} columns, its row of dashes {cells}"
            self._columns = cells
        return None

    def _list_complaint(self, line: str) -> str | None:
        item = _ITEM.match(line)
        if item is None:
            if line and not line[0].isspace():
                self._lists = ()  # a paragraph ends every list
            return None
        indent, number, bullet = len(item[1]), item[2], item[3]
        outer = tuple(known for known in self._lists if known[0] < indent)
        same = next((known for known in self._lists if known[0] == indent), None)
        count = int(number) if number else 0
        if same is not None and bullet and same[1] not in ("", bullet):
            return f"a list goes on with {bullet!r} after {same[1]!r}: {quoted(line)}"
        # "1." for each item is Markdown as well.
        if same is not None and number and not same[1] and count not in (same[2] + 1, same[2]):
            return f"a list goes on with {count} after {same[2]}: {quoted(line)}"
        self._lists = (*outer, (indent, bullet or "", count))
        return None


def _lines(chunk: str) -> list[str]:
    """Return the lines of a chunk and the blank lines before it. The first break ends an earlier line."""
    return chunk.replace("\r\n", "\n").removeprefix("\n").splitlines()


def readable_markdown(**options: Any) -> Requirement:
    """Require readable lists and tables: correctly numbered, with even rows.

    Example:
        >>> readable_markdown().chunking
        'line'
    """
    return ReadableMarkdown(**options)


def _python_complaint(text: str) -> str | None:
    for token in _markdown().parse(text):
        if token.type == "fence" and token.info.strip().split(" ")[0].lower() in _PYTHON:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", SyntaxWarning)
                    ast.parse(token.content)
            # A null byte is a ValueError; deep nesting raises one of the other two.
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                where = f" in line {error.lineno}" if isinstance(error, SyntaxError) else ""
                reason = error.msg if isinstance(error, SyntaxError) else type(error).__name__
                return f"a Python block does not parse: {reason}{where}"
    return None


_PYTHON = ("python", "py", "python3")


@cache
def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark")
