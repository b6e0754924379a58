"""A text as its reader sees it: without markup, escapes and characters that do not show."""

from __future__ import annotations

import html
import json
import re
import unicodedata
from typing import Any

import regex

_ESCAPES = re.compile(r'(?:\\u[0-9A-Fa-f]{4})+|\\["\\/bfnrt]')
_CONTROLS = re.compile(r"[\x00-\x1f]")
_DEEPEST = 3
# What a renderer of Markdown or HTML leaves out of the text. A marker is left out alone as well, since
# its pair may be in another chunk; an underscore within a word stays, as in CommonMark. Nothing is
# searched twice, as the quantifiers give nothing back, so cost is linear.
_MARKUP = regex.compile(
    r"""
      <[/]?(?P<tag>[a-zA-Z][a-zA-Z0-9]*)(?:[^<>"']++|"[^"]{0,500}+"|'[^']{0,500}+')*+>
    | <[/]?(?P<tag>[a-zA-Z][a-zA-Z0-9]*)?[^<>\s=\d][^<>]*+>    # with a quotation mark that has no pair
    | \]\((?:<[^<>]*+>)?+(?:[^()<>]++|\([^()<>]*+\))*+\)  # the destination of a link
    | \]\[[^\[\]]*+\]                                  # its name
    | !?\[ | \]
    | [*`~]+
    | (?<![^\W_])_+ | _+(?![^\W_])
    | \\([!-/:-@\[-`{-~])                              # an escape of Markdown: what it escapes stays
    | \\(?=\n|\Z)                                      # a line break
    | (?<=\n)[ ]{0,3}>[ >]*                            # a quotation goes on
    """,
    regex.VERBOSE,
)
# Tags that stand within a word; others begin a line or a cell.
_NAMES = """
    a abbr b bdi bdo big cite code del dfn em font i ins kbd label mark q s samp small span strike strong
    sub sup time tt u var wbr
"""
_WITHIN = frozenset(_NAMES.split())
_UNFINISHED = regex.compile(
    r"""<[a-zA-Z/!](?:[^<>"']++|"[^"]*+"|'[^']*+')*+(?:"[^"]*+|'[^']*+)?\Z"""
    r"""|\](?:\(|:)\s*+(?:<[^<>]*+)?+[^()\s]*+(?:\s[^()]{0,200})?+\Z"""
)
LONGEST_TAG = 2000
"""Characters of a tag that a rule waits for, so that it is judged as one."""

_SPECIAL = re.compile(r"[<>\[\]*`~_&\\]")  # most text has none
# Characters that do not show, and lines through the letter before them.
_UNSEEN = regex.compile(
    r"[\p{Cf}\p{Default_Ignorable_Code_Point}\x00-\x08\x0e-\x1f\x7f-\x9f\u0334-\u0338\u20d2\u20d3]+"
)
_BLANK = str.maketrans(dict.fromkeys("\u3164\uffa0\u2800", " "))  # they show as a space
_LONG_ENTITY = re.compile(r"&#\d{8,};?")  # Python reads no number of more than 4,300 digits


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
        text = entities_read(_MARKUP.sub(_shown, _without_comments(unescaped(text))))
    return without_unseen(text)


def markup_begun(text: str) -> int | None:
    """Return where the tag or the destination of a link begins in which a text ends; `None` if it ends in neither.

    One of more than `LONGEST_TAG` characters is taken for text.

    Example:
        >>> markup_begun('see <img alt="a > b" src="x'), markup_begun("see [a](http://x"), markup_begun("<b>")
        (4, 6, None)
    """
    if not ("<" in text or "](" in text or "]:" in text):
        return None
    found = _UNFINISHED.search(text, max(len(text) - LONGEST_TAG, 0))
    return None if found is None else found.start()


def _without_comments(text: str) -> str:
    first, *rest = text.split("<!--")
    return first + "".join([part.partition("-->")[2] if "-->" in part else part for part in rest])


def entities_read(text: str) -> str:
    """Return a text with HTML's entities replaced.

    Example:
        >>> entities_read("a &amp; b &#33;") + entities_read("&#" + "1" * 5000)
        'a & b !\ufffd'
    """
    return html.unescape(_LONG_ENTITY.sub("\ufffd", text)) if "&" in text else text


def _shown(found: Any) -> str:
    tag: str | None = found["tag"]
    if tag is not None:
        return "" if tag.lower() in _WITHIN else " "
    return found[2] or ""


def without_unseen(text: str) -> str:
    """Return a text with one form of each letter, and without the characters that do not show.

    Example:
        >>> without_unseen("cafe\u0301, \u200bＡ")
        'café, A'
    """
    if text.isascii():
        return text if text.isprintable() else str(_UNSEEN.sub("", text))
    # Before the letters get one form, as such a character may stand between a letter and its accent.
    return unicodedata.normalize("NFKC", _UNSEEN.sub("", text.translate(_BLANK)))


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


def decoded(written: str) -> str:
    r"""Return JSON without escapes, as far as possible; of other text, without the escapes of JSON in it.

    A line break within a string becomes a space, because the letter of its escape would join the next word.
    A repeated key keeps all its values, and a number keeps its notation.

    Raises:
        RecursionError: If it is nested too deeply.

    Example:
        >>> decoded(r'{"a": "\u0062ad", "a": "so\nbad", "n": 1e2}')
        '{"a": "bad", "a": "so bad", "n": 1e2}'
    """
    try:
        read = json.loads(
            written, object_pairs_hook=_Pairs, parse_float=_Written, parse_int=_Written
        )
    except ValueError:
        return unescaped(written)
    return _written(read)


class _Pairs(list[tuple[str, Any]]):
    """An object, with every pair of it."""


class _Written(str):
    """A number, as it was written."""

    __slots__ = ()


def _written(value: object) -> str:
    match value:
        case _Pairs():
            return f"{{{', '.join(f'{_written(key)}: {_written(one)}' for key, one in value)}}}"
        case list():
            return f"[{', '.join(map(_written, value))}]"
        case _Written():
            return str(value)
        case str():
            return json.dumps(_CONTROLS.sub(" ", value), ensure_ascii=False)
    return json.dumps(value)
