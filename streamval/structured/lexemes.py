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
# Text inside a string: no closing quotation mark, and no illegal character.
STRING_GOES_ON = re.compile(r'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrtu])*+(\\?)\Z')
OPEN_STRING = re.compile(r'[\s,:]*"')
# A string, which stays as it is, or an exponent that is too large for a `Decimal`.
_HUGE_EXPONENT = re.compile(r'"(?:[^"\\]++|\\.)*+"?|(?<=[0-9])([eE][+-]?)[0-9]{5,}', re.DOTALL)
# A bracket directly after a word, ")" or "]" is an index, not JSON.
OPENERS: dict[Root | None, re.Pattern[str]] = {
    "object": re.compile(r"(?<![\w)\]])\{"),
    "array": re.compile(r"(?<![\w)\]])\["),
    None: re.compile(r"(?<![\w)\]])[{\[]"),
}


def ends_escaping(text: str) -> bool:
    r"""Return whether text inside a string ends in a backslash that escapes what follows.

    Example:
        >>> ends_escaping("a\\"), ends_escaping("a\\\\")
        (True, False)
    """
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


def with_small_exponents(text: str) -> str:
    """Return the JSON text with exponents that fit a `Decimal`. As floats its numbers are the same.

    Example:
        >>> with_small_exponents('{"1e1234567": 1e1234567')
        '{"1e1234567": 1e99999'
    """
    return _HUGE_EXPONENT.sub(lambda found: f"{found[1]}99999" if found[1] else found[0], text)


def parser_message(error: Exception) -> str:
    """Return the parser's message without the quoted text in its further lines."""
    said = str(error)
    if said.startswith(("b'", 'b"')):  # ijson gives bytes where it cuts inside a character
        said = said[2:].split("\\n", maxsplit=1)[0].replace("\\'", "'")
    return said.splitlines()[0].strip(" .")
