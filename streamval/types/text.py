"""Text that a model wrote: mended where it is no Unicode, made visible where it steers a terminal."""

from __future__ import annotations

import re

_SURROGATE = re.compile("[\ud800-\udfff]")
# Controls that could steer a terminal, and marks that change the direction of what follows, as
# something to look at. Line breaks and tabs stay.
_VISIBLE: dict[int, int | str] = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"},
    0x7F: "\u2421",
    **dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD),
}


def mended(text: str) -> str:
    """The text with halves of surrogate pairs joined, and those that stay alone replaced.

    A lone half is no character: it cannot be encoded, so a file, a socket or a library that gets
    it fails.

    Example:
        >>> mended("\\ud83d\\ude00 and \\ud83d") == "\U0001f600 and \ufffd"
        True
    """
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def without_halves(text: str) -> str:
    """The text with each half of a surrogate pair replaced, one for one, so that offsets stay.

    For a library that cannot take halves, and is only asked where something is.

    Example:
        >>> without_halves("a\\ud83d") == "a\ufffd"
        True
    """
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


class Mender:
    """`mended` for a stream: a half at the end of a delta waits for the next one.

    The result is the same however the text was sliced.

    Example:
        >>> mender = Mender()
        >>> [mender.feed("a\\ud83d"), mender.feed("\\ude00b"), mender.flush()] == ["a", "\U0001f600b", ""]
        True
    """

    def __init__(self) -> None:
        self._half = ""

    def feed(self, text: str) -> str:
        """Take the next piece of text; return what is certain of it."""
        if self._half:
            text, self._half = self._half + text, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return mended(text)

    def flush(self) -> str:
        """What is left: nothing, or the mark for a half that stayed alone."""
        half, self._half = self._half, ""
        return mended(half)


def visible(text: str) -> str:
    """The text with control characters shown, so that none of them steers a terminal.

    Line breaks and tabs stay.

    Example:
        >>> visible("red: \\x1b[31m")
        'red: ␛[31m'
    """
    return mended(text).replace("\r\n", "\n").translate(_VISIBLE)
