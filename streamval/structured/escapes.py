"""JSON's escapes, undone wherever they stand in a text."""

from __future__ import annotations

import json
import re

_ESCAPES = re.compile(r'(?:\\u[0-9A-Fa-f]{4})+|\\["\\/bfnrt]')
_CONTROLS = re.compile(r"[\x00-\x1f]")
_DEEPEST = 3


def unescaped(text: str) -> str:
    r"""Return a text without the escapes of JSON (RFC 8259, section 7), whether or not it is JSON.

    JSON may stand in a code fence, in prose, behind other JSON, or in a string of JSON: escapes of
    escapes are undone too, three levels deep. An escaped control character, such as ``\n``, becomes a
    space. Cost is linear.

    Example:
        >>> unescaped(r'Here: {"a": "\u0062ad", "in": "{\"b\": \"\\u0062ad\"}"}')
        'Here: {"a": "bad", "in": "{"b": "bad"}"}'
    """
    for _ in range(_DEEPEST):
        if "\\" not in text:
            break
        before, text = text, _ESCAPES.sub(_plain, text)
        if text == before:
            break
    return text


def _plain(found: re.Match[str]) -> str:
    escape = found[0]
    if escape[1] != "u":
        return escape[1] if escape[1] in '"\\/' else " "
    return _CONTROLS.sub(" ", json.loads(f'"{escape}"'))
