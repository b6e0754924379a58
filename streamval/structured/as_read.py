"""A text as its reader sees it: without markup, escapes and characters that do not show."""

from __future__ import annotations

import html
import json
import re
import unicodedata

import regex

_ESCAPES = re.compile(r'(?:\\u[0-9A-Fa-f]{4})+|\\["\\/bfnrt]')
_CONTROLS = re.compile(r"[\x00-\x1f]")
_DEEPEST = 3
# What a renderer of Markdown or HTML leaves out of the text. A marker is left out alone as well, since
# its pair may be in another chunk; an underscore within a word stays, as in CommonMark. Each
# alternative ends at a character that the next match may begin with, so cost is linear.
_MARKUP = regex.compile(
    r"""
      <[a-zA-Z/!?][^<>]*>                             # a tag, a comment
    | \]\(\s*(?:<[^<>]*>|[^\s()<>]*)[^()<>]*\)        # the destination of a link
    | !?\[ | \]
    | [*`]+ | ~~
    | (?<![^\W_])_+ | _+(?![^\W_])
    | \\([!-/:-@\[-`{-~])                             # an escape of Markdown: what it escapes stays
    """,
    regex.VERBOSE,
)
_SPECIAL = re.compile(r"[<\[\]*`~_&\\]")  # most text has none
_UNSEEN = regex.compile(r"[\p{Cf}\p{Default_Ignorable_Code_Point}\x00-\x08\x0e-\x1f\x7f]+")


def as_read(text: str) -> str:
    r"""Return a text as its reader sees it, once it has been rendered.

    Markdown's markers and escapes, HTML's tags and entities, and JSON's escapes are undone; letters
    have one form (Unicode's NFKC), and characters that do not show are left out: format
    characters, such as a soft hyphen, variation selectors and control characters. Cost is linear.

    Example:
        >>> as_read("Ac**me**, _Ｂｅｓｔ_ &amp; \\u0062\u00adig [here](x)")
        'Acme, Best & big here'
    """
    if _SPECIAL.search(text):
        text = html.unescape(_MARKUP.sub(r"\1", unescaped(text)))
    return without_unseen(text)


def without_unseen(text: str) -> str:
    """Return a text with one form of each letter, and without the characters that do not show.

    Example:
        >>> without_unseen("cafe\u0301, \u200bＡ")
        'café, A'
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    elif text.isprintable():
        return text
    shown: str = _UNSEEN.sub("", text)
    return shown


def forms_of(text: str) -> tuple[str, ...]:
    r"""Return the forms of a text that a rule judges: as it is written, unescaped, and as it is read.

    A form that is the same as another is left out, so plain text has one.

    Example:
        >>> forms_of("plain"), forms_of(r"*so* \u0062ig")
        (('plain',), ('*so* \\u0062ig', '*so* big', 'so big'))
    """
    read = as_read(text)
    if read == text:
        return (text,)
    return tuple(dict.fromkeys((text, unescaped(text), read)))


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
