"""Patterns of leaks: keys by the patterns of a scanner, numbers by their check digits."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeAlias

import regex

from streamval.errors import UsageError
from streamval.structured.as_read import without_unseen
from streamval.types.text import LETTER, UNSPACED

Find: TypeAlias = "Callable[..., str | None]"

SHORTEST_KEY = 16
"""Characters of the shortest word that may be a key."""

PLACEHOLDER = 8
"""Least number of different characters in a key; with fewer, as in ``ghp_xxxxxxxx``, it is a placeholder."""

# What may stand between the groups of a number: spaces, punctuation, brackets, quotation marks, markers.
_BETWEEN = r"[\W_]{1,5}"
# A card's number as it is written: in one piece, in the groups of the card, in fours, in halves, or digit by digit.
# Not behind a decimal point, nor as a part of more digits; behind a digit and a comma in a list only. Searched
# from each position, as a year or another number may stand right before it.
_CARDS = [
    re.compile(rf"(?<!\d)(?<!\d\.)(?<![^\d,;|\[]\d,)(?<!\A\d,)(?=({shape})(?!\d))")
    for shape in (
        r"\d{13,19}",
        rf"\d{{4}}(?:{_BETWEEN}\d{{4}}){{3}}",
        rf"\d{{4}}(?:{_BETWEEN}\d{{4}}){{2,3}}{_BETWEEN}\d{{1,3}}",  # fours, of any network
        rf"\d{{4}}(?:{_BETWEEN}\d{{3}}){{3}}",
        rf"\d{{4}}{_BETWEEN}\d{{6}}{_BETWEEN}\d{{4,5}}",
        rf"\d{{8}}{_BETWEEN}\d{{8}}",
        rf"\d(?P<s>{_BETWEEN})\d(?:(?P=s)\d){{11,17}}(?!(?P=s)\d)",
    )
]
# The first digits of the networks, and how many each has (ISO/IEC 7812): Visa, Mastercard, American
# Express, Diners, Discover, JCB, UnionPay.
_NETWORKS = re.compile(
    r"4\d{12}(?:\d{3}){0,2}|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}"
    r"|3(?:0[0-5]|[689]\d)\d{11}|(?:6011|64[4-9]\d|65\d\d)\d{12,15}|35(?:2[89]|[3-8]\d)\d{12,15}"
    r"|62\d{14,17}"
)
# Searched from each position, as an invalid one may stand right before a valid one.
_IBAN = re.compile(
    rf"(?:(?<!{LETTER})|(?<=IBAN))(?=([A-Z])[\W_]{{0,5}}([A-Z])[\W_]{{0,5}}\d[\W_]{{0,5}}\d)",
    re.IGNORECASE,
)
_EMAIL = re.compile(
    r"(?<![\w.+-])[\w.+-]{1,64}@(?:[^\W_](?:[\w-]{0,62}\.)){1,8}"
    r"(?!(?:png|jpe?g|gif|svg|webp)\b)(?:xn--[a-z0-9-]{2,59}|[^\W\d_]{2,24}?)"
    rf"(?!{LETTER})(?!:[\w.~-]*/)",  # git@example.org:a/b is not an address
    re.IGNORECASE,
)
_INTERNATIONAL = re.compile(r"(?<![\w.+])00(?=[\s)-]*[1-9])")
_NO_TELEPHONE = re.compile(r"\d{1,2}[-./]\d{1,2}[-./]\d{2,4}|97[89][ -]\d.*")
_NOISE = re.compile(r"[*_`]+|\+(?=[\s+]*\+)")  # markup, and a plus before another one
# More groups than two telephone numbers have, all of them short. Each would be tried as a number.
_TABLE = re.compile(r"(?<!\d)(?:\d{1,3}(?:[^\w+]\d{1,3}){15,}|\d{2,3}(?:[^\w+]\d{2,3}){9,})(?!\d)")
_DIGIT = re.compile(r"\d")
_FEWEST_DIGITS = 6

LONGEST_NUMBER = 60
"""Characters of the longest way to write a telephone number (ITU-T E.164: 15 digits)."""

UNFINISHED_KEY = re.compile(r"-----BEGIN(?: [A-Z0-9]*)*$")
"""Matches a text whose end may continue as a private key (RFC 7468)."""

_NUMBER_BACKWARDS = re.compile(r"[\d\W_]*")
_BEGINS_NUMBER = re.compile(r"[\d+(]")


def normalised(text: str) -> str:
    """Return the text with one spelling for characters that look the same.

    Full-width letters become plain ones (Unicode's NFKC), every script's digits ``0`` to ``9``,
    every dash ``-``, and characters without width are left out.

    Example:
        >>> normalised("４１１１–11\u200b11\u00a0٣")
        '4111-1111 3'
    """
    text = without_unseen(text)
    return text if text.isascii() else _ODD.sub(_plain, text)


_ODD = re.compile(r"[^\x00-\x7f]")


def _plain(found: re.Match[str]) -> str:
    char = found[0]
    match unicodedata.category(char):
        case "Pd":
            return "-"
        case "Nd":
            return str(unicodedata.decimal(char))
    return "-" if char == "\u2212" else char  # the minus sign


class Keys:
    """Finds API keys, tokens and private keys in a text: the kind of a key, or `None`.

    Args:
        kinds: Kinds, each with its pattern.
    """

    def __init__(self, kinds: list[tuple[str, Any]]) -> None:
        self._kinds = kinds

    def __call__(self, text: str, new: int = 0) -> str | None:
        """Return the kind of key in a text, or `None`. Text before `new` has been checked."""
        if _PRIVATE_KEY.search(text):
            return "a secret (private key)"
        for word in _WORDS.findall(text, new):
            if len(word) >= SHORTEST_KEY and (kind := self._kind(word)):
                return kind
        return None

    def spans(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield where keys are. Private keys have several words, and are left out."""
        for word in _WORDS.finditer(text):
            if len(word[0]) >= SHORTEST_KEY and self._kind(word[0]):
                yield *word.span(), "secret"

    def _kind(self, word: str) -> str | None:
        for kind, pattern in self._kinds:
            found = pattern.search(word)
            if found is not None and len(set(found[0])) >= PLACEHOLDER:
                return kind
        return None


@cache
def key_finder() -> Keys:
    """Return what finds keys.

    The patterns are those of Kingfisher, a scanner by MongoDB, and of Betterleaks within it. Only
    patterns that recognise a key by itself are used; those that need a variable's name suit source code.

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
    return Keys(kinds)


_WORDS = re.compile(rf"[^\s{UNSPACED}]+")
_PRIVATE_KEY = re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
# Kingfisher's patterns require this behind a key, as in source code; in prose a full stop may follow.
_BEHIND = r"""(?:\\?['"\x60]|[\s;]|\\[nr]|$)"""
_MANY_WORDS = re.compile(r"\\s|\\t|\\n| |\(\?[a-z]*[sx]|\.[*+{]|=\|>")
# Negated sets, and sets without a quantifier: whitespace in them stands only at a key's edge.
_EDGES = re.compile(r"\[\^(?:\\.|[^\]])*\]|\[(?:\\.|[^\]])*\](?![*+{?])")


def _of_one_word(rule: Any) -> str | None:
    """Return a rule's pattern, if it matches single words."""
    pattern: str = rule["detection_regex"].replace(_BEHIND, r"(?![A-Za-z0-9])")
    return None if _MANY_WORDS.search(_EDGES.sub("", pattern)) else pattern


class PersonalData:
    """Finds personal data in a text.

    Args:
        region: Country whose telephone numbers are recognised without a prefix, or `None`.

    Raises:
        UsageError: If the extra is not installed, or the region is unknown.

    Example:
        >>> PersonalData(None)("Pay with 4111 1111 1111 1111")
        'a payment card number'
    """

    def __init__(self, region: str | None) -> None:
        try:
            import phonenumbers  # an optional extra
            from stdnum import iban, luhn, numdb
        except ImportError:
            raise _missing("no_personal_data") from None
        if region is not None and region not in phonenumbers.SUPPORTED_REGIONS:
            raise UsageError(
                f"region must be a country's two capital letters, such as 'US', not {region!r}"
            )
        self._region = region
        self._telephones, self._iban, self._luhn = phonenumbers.PhoneNumberMatcher, iban, luhn
        self._countries: Any = numdb.get("iban")
        self._lengths: dict[str, int] = {}

    def __call__(self, text: str, new: int = 0) -> str | None:
        """Return the kind of personal data in a text, or `None`. Text before `new` has been checked."""
        if "@" in text and _EMAIL.search(text):
            return "an e-mail address"
        if len(_DIGIT.findall(text)) < _FEWEST_DIGITS:
            return None
        for kind, has_one in (
            ("a payment card number", self._has_card),
            ("an IBAN", self._has_iban),
            ("a telephone number", self._has_telephone),
        ):
            if has_one(text, new):
                return kind
        return None

    def spans(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield where personal data is, and its kind."""
        for found in _EMAIL.finditer(text) if "@" in text else ():
            yield *found.span(), "e-mail address"
        digits = [found.start() for found in _DIGIT.finditer(text)]
        if len(digits) < _FEWEST_DIGITS:
            return
        for span in self._cards(text):
            yield *span, "payment card number"
        for span in self._ibans(text):
            yield *span, "IBAN"
        written = "".join(text[at] for at in digits)
        for number in self._numbers(text):
            at = written.find(number)
            while at >= 0:
                yield digits[at], digits[at + len(number) - 1] + 1, "telephone number"
                at = written.find(number, at + 1)

    def _cards(self, text: str, begin: int = 0) -> Iterator[tuple[int, int]]:
        for shape in _CARDS:
            for found in shape.finditer(text, begin):
                number = re.sub(r"\D", "", found[1])
                if _NETWORKS.fullmatch(number) and self._luhn.is_valid(number):
                    yield found.span(1)

    def _ibans(self, text: str, begin: int = 0) -> Iterator[tuple[int, int]]:
        for found in _IBAN.finditer(text, begin):
            size = self._iban_length((found[1] + found[2]).upper())
            letters, end = _next_letters(text, found.start(), size)
            # Whether its country knows the bank is not asked: it need not be real to be somebody's.
            if size and self._iban.is_valid(letters, check_country=False):
                yield found.start(), end

    def _numbers(self, text: str, begin: int = 0) -> Iterator[str]:
        """Yield the digits of telephone numbers."""
        for spelled in _spellings(_TABLE.sub(" ", _NOISE.sub("", text[begin:]))):
            if self._region is None and "+" not in spelled:  # there is no number in it
                continue
            for found in self._telephones(spelled, self._region):
                if not _NO_TELEPHONE.fullmatch(found.raw_string):
                    yield re.sub(r"\D", "", found.raw_string)

    def may_go_on(self, text: str) -> bool:
        """Return whether the end of a text may be the beginning of a number.

        It is digits and separators, a plus, an opening bracket, or an IBAN that lacks letters.
        """
        backwards = _NUMBER_BACKWARDS.match(text[: -LONGEST_CARD - 1 : -1])
        if backwards is not None and _BEGINS_NUMBER.search(backwards[0]):
            return True
        begin = max(len(text) - LONGEST_IBAN, 0)
        if not _DIGIT.search(text, begin):  # most text has none
            return False
        for found in _IBAN.finditer(text, begin):
            size = self._iban_length((found[1] + found[2]).upper())
            if size and not _next_letters(text, found.start(), size)[0]:
                return True
        return False

    def _has_card(self, text: str, new: int) -> bool:
        return any(end > new for _, end in self._cards(text, max(new - LONGEST_CARD, 0)))

    def _has_iban(self, text: str, new: int) -> bool:
        return any(end > new for _, end in self._ibans(text, max(new - LONGEST_IBAN, 0)))

    def _iban_length(self, country: str) -> int:
        """Return the length of a country's IBANs; 0 if it has no IBANs."""
        if country not in self._lengths:
            ((_, known), *_) = self._countries.info(country) or [("", {})]
            parts = re.findall(r"(\d+)!?[nac]", known.get("bban", ""))
            self._lengths[country] = 4 + sum(map(int, parts)) if parts else 0
        return self._lengths[country]

    def _has_telephone(self, text: str, new: int) -> bool:
        begin = text.find(" ", new - LONGEST_NUMBER) + 1 if new > LONGEST_NUMBER else 0
        return any(self._numbers(text, begin))


LONGEST_CARD = 120
"""Characters of the longest way to write a card's number: digit by digit."""

LONGEST_IBAN = 204
"""Characters of the longest way to write an IBAN: 34 letters (ISO 13616) with up to five characters behind each."""


LONGEST_LEAK = 512
"""Characters before a chunk in which a leak may begin."""

_WORD = re.compile(r"\S+")
_OPENS, _CLOSES = "([{<\"'“‘«", ".,;:!?)]}>\"'”’»…"


def spans_in(
    text: str, new: int, find: Callable[[str], Iterator[tuple[int, int, str]]]
) -> Iterator[tuple[int, int, str]]:
    """Yield where leaks that reach behind an offset are: whole words, without the punctuation around them.

    Args:
        text: The text as it is written.
        new: The offset.
        find: Finds leaks in words of one spelling, joined by spaces.

    Example:
        >>> text = "Write to (bob@example.org)."
        >>> [text[start:end] for start, end, _ in spans_in(text, 0, PersonalData(None).spans)]
        ['bob@example.org']
    """
    begin = max(new - LONGEST_LEAK, 0)
    words = [word for word in _WORD.finditer(text) if word.end() > begin]
    spelled, places = "", []
    for word in words:
        places.append(len(spelled))
        spelled += normalised(word[0]) + " "
    for start, end, kind in find(spelled.rstrip()):
        first = bisect_right(places, start) - 1
        last = bisect_left(places, end) - 1
        raw = text[words[first].start() : words[last].end()]
        at = words[first].start() + len(raw) - len(raw.lstrip(_OPENS))
        to = words[last].end() - len(raw) + len(raw.rstrip(_CLOSES))
        if to > new:
            yield at, to, kind


def _next_letters(text: str, start: int, size: int) -> tuple[str, int]:
    """Return the next letters and digits, and where they end."""
    letters: list[str] = []
    for at in range(start, min(start + 6 * size, len(text))):
        if text[at].isalnum():
            letters.append(text[at])
            if len(letters) == size:
                return "".join(letters), at + 1
    return "", start


def _spellings(text: str) -> Iterator[str]:
    """Yield the text, and for each possible international prefix 00 in it, a plus and the text after it."""
    yield text
    for zeros in _INTERNATIONAL.finditer(text):
        yield "+" + text[zeros.end() : zeros.end() + LONGEST_NUMBER]


def _missing(what: str) -> UsageError:
    return UsageError(f"{what}() needs an extra: pip install 'streamval-llm[privacy]'")
