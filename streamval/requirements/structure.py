"""Requirements of form: Python in code blocks, lists and tables of Markdown."""

from __future__ import annotations

import ast
import re
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

from markdown_it import MarkdownIt
from markdown_it.rules_block.table import escapedSplit

from streamval.requirements.base import Requirement, simple_validate
from streamval.requirements.function import PASS, shortened
from streamval.types.results import PartialValidationResult

if TYPE_CHECKING:
    from streamval.backends.base import Backend
    from streamval.types.context import Context

# A fence may stand in a list, behind its markers.
_FENCE = re.compile(r"\s*(?:(?:[-*+]|\d{1,9}[.)])\s+)*(`{3,}|~{3,})")
_BREAK = re.compile(r"\s{0,3}([-*_])(?:\s*\1){2,}\s*")
_DELIMITERS = re.compile(r"[ \t|:-]*-[ \t|:-]*")
_ITEM = re.compile(r"(\s*)(?:(\d{1,9})[.)]|([-*+]))\s")


class ValidPython(Requirement):
    """Each code block marked as Python parses. Judges a block when its fence closes.

    Verdicts are certain, for all text up to the last block. With ``hold=True`` a block is not
    delivered in pieces before it has been judged, as it is one chunk here.
    """

    judges = str

    def __init__(self, **options: Any) -> None:
        options = {"chunking": "markdown", **options}
        super().__init__(
            "Python in code blocks is valid", simple_validate(self._judge_whole), **options
        )

    def stream_validate(
        self, chunk: str, *, backend: Backend | None, ctx: Context | None
    ) -> PartialValidationResult:
        """Parse the block, if it is Python."""
        del backend, ctx
        complaint = _python_complaint(chunk)
        return PASS if complaint is None else PartialValidationResult("fail", reason=complaint)

    def _judge_whole(self, text: str) -> bool | tuple[bool, str]:
        complaint = _python_complaint(text)
        return True if complaint is None else (False, complaint)


def valid_python(**options: Any) -> Requirement:
    """Python in fenced code blocks (```` ```python ````) has no syntax error.

    Args:
        **options: As for `Requirement`.

    Returns:
        The requirement.

    Example:
        >>> valid_python().description
        'Python in code blocks is valid'
    """
    return ValidPython(**options)


class ReadableMarkdown(Requirement):
    """Lists count right and keep their bullet; tables have a delimiter row and even rows.

    Judges line by line: each verdict is certain, so `hold` changes nothing.
    """

    judges = str

    verbatim = True  # a blank line ends a table

    def __init__(self, **options: Any) -> None:
        options = {"chunking": "line", **options}
        super().__init__(
            "lists and tables are well-formed Markdown",
            simple_validate(self._judge_whole),
            **options,
        )
        self._fence = ""
        self._row: int | None = None
        self._columns: int | None = None
        self._lists: tuple[tuple[int, str, int], ...] = ()

    def stream_validate(
        self, chunk: str, *, backend: Backend | None, ctx: Context | None
    ) -> PartialValidationResult:
        """Look at one line after another."""
        del backend, ctx
        for line in _lines(chunk):
            complaint = self._complaint(line)
            if complaint is not None:
                return PartialValidationResult("fail", reason=complaint)
        return PASS

    def _judge_whole(self, text: str) -> bool | tuple[bool, str]:
        afresh = ReadableMarkdown()
        for line in text.splitlines():
            complaint = afresh._complaint(line)
            if complaint is not None:
                return False, complaint
        if afresh._fence:
            return False, "a code fence is not closed"
        return True

    def _complaint(self, line: str) -> str | None:
        """What is wrong with a line, after those before it."""
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
        cells = len(escapedSplit(line.strip().removeprefix("|").removesuffix("|")))
        if self._columns is not None and cells != self._columns:
            return f"a table of {self._columns} columns has a row of {cells}: {shortened(line)}"
        if self._row is None:
            self._row = cells
        elif self._columns is None:
            if not _DELIMITERS.fullmatch(line):
                return f"a table needs a row of dashes under its head, not {shortened(line)}"
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
            return f"a list goes on with {bullet!r} after {same[1]!r}: {shortened(line)}"
        # "1." for each item is Markdown as well.
        if same is not None and number and not same[1] and count not in (same[2] + 1, same[2]):
            return f"a list goes on with {count} after {same[2]}: {shortened(line)}"
        self._lists = (*outer, (indent, bullet or "", count))
        return None


def _lines(chunk: str) -> list[str]:
    """The lines of a chunk, and the blank ones before it; the first break ends the line before."""
    return chunk.replace("\r\n", "\n").removeprefix("\n").splitlines()


def readable_markdown(**options: Any) -> Requirement:
    """Lists and tables that people can read: counted right, with even rows.

    Args:
        **options: As for `Requirement`.

    Returns:
        The requirement.

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
            # A null byte is a ValueError; what nests too deep, one of the others.
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                where = f" in line {error.lineno}" if isinstance(error, SyntaxError) else ""
                reason = error.msg if isinstance(error, SyntaxError) else type(error).__name__
                return f"a Python block does not parse: {reason}{where}"
    return None


_PYTHON = ("python", "py", "python3")


@cache
def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark")
