"""Decides whether a text begins with JSON, with a string, or with prose."""

from __future__ import annotations

import re
from copy import copy
from typing import Literal

_FENCE = re.compile(r"```[^\n`{\[]{0,36}\n")
_FENCE_SO_FAR = re.compile(r"`{1,2}|```[^\n`{\[]{0,36}")
# The inside of a string, without its end, illegal characters, or half of an escape.
_IN_STRING = re.compile(r'(?:[^"\\\x00-\x1f]++|\\.)*+', re.DOTALL)


class Opening:
    """Decides how a text begins, from its pieces. The decision does not depend on the slicing.

    Whitespace and the first line of a code fence are skipped. After them, a bracket begins the JSON,
    of any kind. A string is the JSON if nothing follows it: then a bracket inside it does not
    begin anything. Anything else is prose that may contain the JSON.

    Attributes:
        kind: The kind of text, once that is certain.
        at: Offset of the text that `feed` returns.

    Example:
        >>> opening = Opening()
        >>> [opening.feed(piece) for piece in ["``", "`json", "\\n  ", '{"a"']], opening.kind, opening.at
        ([None, None, None, '{"a"'], 'json', 10)
    """

    def __init__(self) -> None:
        self.kind: Literal["json", "string", "prose"] | None = None
        self.at = 0
        self._state: Literal["space", "fence", "string", "behind"] = "space"
        self._fenced = False
        self._held: list[str] = []

    def __copy__(self) -> Opening:
        twin: Opening = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._held = copy(self._held)
        return twin

    def feed(self, text: str) -> str | None:
        """Take the next piece; return the text from `at` on, once its kind is certain."""
        while text and self.kind is None:
            match self._state:
                case "space":
                    text = self._skip_space(text)
                case "fence":
                    text = self._read_fence(text)
                case "string":
                    text = self._read_string(text)
                case "behind":
                    text = self._look_behind(text)
        return None if self.kind is None else "".join((*self._held, text))

    @property
    def is_string(self) -> bool:
        """Whether the text so far is only a string, perhaps in a code fence."""
        return self.kind == "string" or (self.kind is None and self._state == "behind")

    def _skip_space(self, text: str) -> str:
        rest = text.lstrip()
        self.at += len(text) - len(rest)
        match rest[:1]:
            case "{" | "[":
                self.kind = "json"
            case '"':
                self._state = "string"
                self._held = ['"']
                return rest[1:]
            case "`" if not self._fenced:
                self._state = "fence"
            case "":
                pass
            case _:
                self.kind = "prose"
        return rest

    def _read_fence(self, text: str) -> str:
        text = "".join((*self._held, text))
        self._held = []
        if fence := _FENCE.match(text):
            self.at += fence.end()
            self._state, self._fenced = "space", True
            return text[fence.end() :]
        if _FENCE_SO_FAR.fullmatch(text):
            self._held = [text]
            return ""
        self.kind = "prose"
        return text

    def _read_string(self, text: str) -> str:
        if self._held[-1] == "\\":  # it escapes the next character
            text = self._held.pop() + text
        inside = _IN_STRING.match(text)
        assert inside is not None
        end = inside.end()
        match text[end:]:
            case "":
                self._held.append(text)
                return ""
            case "\\":
                self._held += (text[:end], "\\")
                return ""
            case following if following[0] == '"':
                self._state = "behind"
                end += 1
            case _:
                self.kind = "prose"
        self._held.append(text[:end])
        return text[end:]

    def _look_behind(self, text: str) -> str:
        rest = text.lstrip()
        self._held.append(text[: len(text) - len(rest)])
        if rest:
            self.kind = "string" if self._fenced and rest[0] == "`" else "prose"
        return rest


def unfenced(text: str) -> str:
    """Return the text without whitespace and a code fence around it.

    Example:
        >>> unfenced("```json\\n6\\n```\\n")
        '6'
    """
    text = text.strip()
    if fence := _FENCE.match(text):
        text = text[fence.end() :].removesuffix("```").strip()
    return text
