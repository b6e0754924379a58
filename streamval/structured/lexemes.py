"""Patterns of JSON tokens, and small functions on raw JSON text."""

from __future__ import annotations

import re

from streamval.structured.json_events import Root

# One token (a string, a bracket, a number or another literal), and the separators before it. Text
# directly after it, as in ``1word``, does not belong to it: the parser ends a value there too.
LEXEME = re.compile(
    r"""[\s,:]* (
        "(?:[^"\\]++|\\.)*+" | [{}\[\]] | true | false | null
        | -?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?
    )""",
    re.VERBOSE | re.DOTALL,
)
# Text inside a string: no closing quotation mark, no illegal character, and no illegal escape. An escape
# may be unfinished at its end.
STRING_GOES_ON = re.compile(
    r'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9A-Fa-f]{4})*+((?:\\(?:u[0-9A-Fa-f]{0,3})?)?)\Z'
)
_UNFINISHED_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*(\\(?:u[0-9A-Fa-f]{0,3})?)\Z")
# A number or word that has not ended; or a comma, behind which something has to follow.
OPEN_LITERAL = re.compile(r"\s*+(?:(,)\s*+|[\s,:]*+([-0-9tfn][^\s,\]}]*))\Z")
OPEN_STRING = re.compile(r'[\s,:]*"')
# A string, which stays as it is, or an exponent that is too large for a `Decimal`.
_HUGE_EXPONENT = re.compile(r'"(?:[^"\\]++|\\.)*+"?|(?<=[0-9])([eE][+-]?)[0-9]{5,}', re.DOTALL)
# A bracket directly after a word, ")" or "]" is an index, not JSON.
OPENERS: dict[Root | None, re.Pattern[str]] = {
    "object": re.compile(r"(?<![\w)\]])\{"),
    "array": re.compile(r"(?<![\w)\]])\["),
    None: re.compile(r"(?<![\w)\]])[{\[]"),
}


def unfinished_escape(text: str) -> str:
    r"""Return the escape at the end of text inside a string that needs more characters; empty without one.

    Example:
        >>> unfinished_escape("a\\"), unfinished_escape("a\\\\"), unfinished_escape(r"a\u00e")
        ('\\', '', '\\u00e')
    """
    found = _UNFINISHED_ESCAPE.search(text)
    return found[1] if found else ""


def with_small_exponents(text: str) -> str:
    """Return the JSON text with exponents that fit a `Decimal`. As floats its numbers are the same.

    Example:
        >>> with_small_exponents('{"1e1234567": 1e1234567')
        '{"1e1234567": 1e99999'
    """
    return _HUGE_EXPONENT.sub(lambda found: f"{found[1]}99999" if found[1] else found[0], text)


def parser_message(error: Exception) -> str:
    """Return the parser's message without the quoted text in its further lines."""
    if isinstance(error, SystemError):
        return "a number has thousands of digits"
    said = str(error)
    if said.startswith(("b'", 'b"')):  # ijson gives bytes where it cuts inside a character
        said = said[2:].split("\\n", maxsplit=1)[0].replace("\\'", "'")
    return said.splitlines()[0].strip(" .")
