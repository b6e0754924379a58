"""What is a leak: keys by the patterns of a scanner, numbers by their check digits."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import TYPE_CHECKING, Any

import regex

from streamval.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Find = Callable[[str], str | None]

SHORTEST_KEY = 16
"""Characters of the shortest word that may be a key."""

PLACEHOLDER = 8
"""Different characters of a key at least: one of fewer, such as ``ghp_xxxxxxxx``, stands for one."""

# What separates the groups of a number: up to five of these, as in "**4111** **1111**".
_BETWEEN = r"[\s.*_·-]{0,5}"
_DIGITS = re.compile(rf"(?<!\d)\d(?:{_BETWEEN}\d){{12,63}}")
# The first digits of the networks: Visa, Mastercard, American Express, Diners, Discover, and so on.
_CARD = re.compile(r"(?:4|5[1-5]|2[2-7]|3[0-9]|6)\d{12,18}")
# Looked for from each place on, as one that is none may stand right before one that is.
_IBAN = re.compile(rf"\b(?=([A-Z]{{2}}\d{{2}}(?:{_BETWEEN}[A-Z0-9]){{11,30}}))", re.IGNORECASE)
_EMAIL = re.compile(
    r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}"
    r"(?!(?:png|jpe?g|gif|svg|webp)\b)[^\W\d_]{2,24}(?![\w-])",
    re.IGNORECASE,
)
_INTERNATIONAL = re.compile(r"(?<![\w.,+])00(?=[1-9])")
_FEWEST_DIGITS = 6

LONGEST_NUMBER = 40
"""Characters of the longest way to write a telephone number (ITU-T E.164: 15 digits)."""

UNFINISHED_KEY = re.compile(r"-----BEGIN(?: [A-Z0-9]*)*$")
"""The text ends in what may go on as a private key (RFC 7468)."""

UNFINISHED_NUMBER = re.compile(
    r"(?:[+(]|\d)[\d\s()/.*_·+-]{0,80}$|\b[A-Z]{2}\d{2}[A-Z0-9\s.*_·-]{0,60}$", re.IGNORECASE
)
"""The text ends in what may go on as a number: digits and what stands between them, a plus, an
opening bracket, an IBAN's country."""


def normalised(text: str) -> str:
    """The text with one spelling for what looks the same.

    Full-width letters become plain ones (Unicode's NFKC), every script's digits ``0`` to ``9``,
    every dash ``-``, and what has no width is left out.

    Example:
        >>> normalised("４１１１–11\u200b11\u00a0٣")
        '4111-1111 3'
    """
    if text.isascii():
        return text
    return _ODD.sub(_plain, unicodedata.normalize("NFKC", text))


_ODD = re.compile(r"[^\x00-\x7f]")


def _plain(found: re.Match[str]) -> str:
    char = found[0]
    match unicodedata.category(char):
        case "Cf":
            return ""
        case "Pd":
            return "-"
        case "Nd":
            return str(unicodedata.decimal(char))
    return "-" if char == "\u2212" else char  # the minus sign


@cache
def key_finder() -> Find:
    """A function from a text to the kind of key in it, or `None`.

    The patterns are those of Kingfisher, a scanner by MongoDB, and of Betterleaks within it: of
    them the ones that know a key by itself. Those that go by a variable's name are for source code.

    Raises:
        UsageError: If the extra is not installed.
    """
    try:
        import kingfisher_sdk  # an optional extra
    except ImportError:
        raise _missing("no_secrets") from None
    rules = kingfisher_sdk.Rules(confidence="low")
    kinds: list[tuple[str, Any]] = []
    for rule in rules.metadata():
        if rule["visible"] and (pattern := _of_one_word(rules.detail(rule["id"]))):
            name = re.split(r"[./]", rule["id"])[1].replace("-", " ")
            kinds.append((f"a secret ({name})", regex.compile(pattern)))

    def find(text: str) -> str | None:
        if _PRIVATE_KEY.search(text):
            return "a secret (private key)"
        for word in text.split():
            if len(word) < SHORTEST_KEY:
                continue
            for kind, pattern in kinds:
                found = pattern.search(word)
                if found is not None and len(set(found[0])) >= PLACEHOLDER:
                    return kind
        return None

    return find


_PRIVATE_KEY = re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
# What Kingfisher's patterns want behind a key, as source code has it; in prose a full stop may follow.
_BEHIND = r"""(?:\\?['"\x60]|[\s;]|\\[nr]|$)"""
_MANY_WORDS = re.compile(r"\\s|\\t|\\n| |\(\?[a-z]*[sx]|\.[*+{]|=\|>")
# Sets of characters that hold no more whitespace than one at a key's edge.
_EDGES = re.compile(r"\[\^(?:\\.|[^\]])*\]|\[(?:\\.|[^\]])*\](?![*+{?])")


def _of_one_word(rule: Any) -> str | None:
    """A rule's pattern, if what it finds is a word by itself."""
    pattern: str = rule["detection_regex"].replace(_BEHIND, r"(?![A-Za-z0-9])")
    return None if _MANY_WORDS.search(_EDGES.sub("", pattern)) else pattern


def data_finder(region: str | None) -> Find:
    """A function from a text to the kind of personal data in it, or `None`.

    Raises:
        UsageError: If the extra is not installed, or the region is unknown.
    """
    try:
        import phonenumbers  # an optional extra
        from stdnum import iban, luhn
    except ImportError:
        raise _missing("no_personal_data") from None
    if region is not None and region not in phonenumbers.SUPPORTED_REGIONS:
        message = f"region must be a country's two capital letters, such as 'US', not {region!r}"
        raise UsageError(message)

    def is_card(number: str) -> bool:
        return _CARD.fullmatch(number) is not None and bool(luhn.is_valid(number))

    def has_card(text: str) -> bool:
        return any(_some_groups(found[0], is_card) for found in _DIGITS.finditer(text))

    def has_iban(text: str) -> bool:
        return any(_some_beginning(found[1], iban.is_valid) for found in _IBAN.finditer(text))

    def has_telephone(text: str) -> bool:
        return any(any(phonenumbers.PhoneNumberMatcher(s, region)) for s in _spellings(text))

    kinds: list[tuple[str, Callable[[str], bool]]] = [
        ("a payment card number", has_card),
        ("an IBAN", has_iban),
        ("a telephone number", has_telephone),
    ]

    def find(text: str) -> str | None:
        if "@" in text and _EMAIL.search(text):
            return "an e-mail address"
        if sum(map(str.isdigit, text)) < _FEWEST_DIGITS:
            return None
        return next((kind for kind, has_one in kinds if has_one(text)), None)

    return find


def _spellings(text: str) -> Iterator[str]:
    """The text, and what follows each 00 in it behind a plus: a group of a number may begin so."""
    yield text
    for zeros in _INTERNATIONAL.finditer(text):
        yield "+" + text[zeros.end() : zeros.end() + LONGEST_NUMBER]


def _some_groups(digits: str, is_one: Callable[[str], bool]) -> bool:
    """Whether some of these groups of digits, one after the other, are a number of a kind."""
    groups = re.findall(r"\d+", digits)
    for start in range(len(groups)):
        number = ""
        for group in groups[start:]:
            number += group
            if is_one(number):
                return True
    return False


def _some_beginning(text: str, is_one: Callable[[str], bool]) -> bool:
    """Whether a first part of it is an IBAN, which has 15 to 34 letters and digits."""
    letters = re.sub(r"[^A-Za-z0-9]", "", text)
    return any(is_one(letters[:end]) for end in range(15, min(len(letters), 34) + 1))


def _missing(what: str) -> UsageError:
    return UsageError(f"{what}() needs an extra: pip install 'streamval-llm[privacy]'")
