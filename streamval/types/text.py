"""Makes a model's text safe: repairs surrogates, shows control characters."""

from __future__ import annotations

import re

_SURROGATE = re.compile("[\ud800-\udfff]")
# Visible replacements for characters that control a terminal, or change the direction of
# text. Line breaks and tabs stay.
_VISIBLE: dict[int, int | str] = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"},
    0x7F: "\u2421",
    **dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD),
}


UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
"""Ranges of scripts that are written without spaces, for a pattern's set: Thai, Lao, Burmese, Khmer, Japanese,
Chinese. Korean is among them, as its particles follow a word without a space."""

LETTER = rf"[^\W_{UNSPACED}]"
"""A pattern of a letter or digit that is part of a word, so that a word does not begin or end beside it."""


def mended(text: str) -> str:
    """Return the text with surrogate pairs joined, and lone surrogates replaced.

    A lone surrogate cannot be encoded, so a file, a socket or a library that gets
    it fails.

    Example:
        >>> mended("\\ud83d\\ude00 and \\ud83d") == "\U0001f600 and \ufffd"
        True
    """
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def without_halves(text: str) -> str:
    """Return the text with each half of a surrogate pair replaced, one for one, so that offsets stay.

    For a library that does not accept surrogates, and returns only offsets.

    Example:
        >>> without_halves("a\\ud83d") == "a\ufffd"
        True
    """
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


class Mender:
    """Applies `mended` to a stream: a half at the end of a delta waits for the next delta.

    The result is the same however the text was sliced.

    Attributes:
        half: The half that waits; usually empty.

    Example:
        >>> mender = Mender()
        >>> [mender.feed("a\\ud83d"), mender.feed("\\ude00b"), mender.flush()] == ["a", "\U0001f600b", ""]
        True
    """

    __slots__ = ("half",)

    def __init__(self) -> None:
        self.half = ""

    def feed(self, text: str) -> str:
        """Take the next piece of text; return the part that is certain."""
        if self.half:
            text, self.half = self.half + text, ""
        elif text.isascii():  # most text
            return text
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self.half = text[:-1], text[-1]
        return mended(text)

    def flush(self) -> str:
        """Return the rest: empty, or the replacement of an unpaired half."""
        half, self.half = self.half, ""
        return mended(half)


def visible(text: str) -> str:
    """Return the text with visible control characters, so that none of them controls a terminal.

    Line breaks and tabs stay.

    Example:
        >>> visible("red: \\x1b[31m")
        'red: ␛[31m'
    """
    return mended(text).replace("\r\n", "\n").translate(_VISIBLE)
