"""Requirements against leaks: secrets, personal data, links to other hosts.

All of these look at words, whatever the pipeline's chunks, so a key that arrives in four pieces is
one word by the time it is judged. And all hold by default: what may turn out to be a leak is kept
from the consumer until it is certain that it is none.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from streamval.errors import UsageError
from streamval.requirements.base import Requirement, simple_validate
from streamval.requirements.function import PASS, UNKNOWN
from streamval.types.results import PartialValidationResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from streamval.backends.base import Backend
    from streamval.types.context import Context

    Find = Callable[[str], str | None]

WINDOW = 16
"""Words that are looked at together: an IBAN is written in up to nine, a phone number in as many."""


LONG_WORD = 128
"""Characters of a word that are looked at again together with the words after it."""


class NoLeak(Requirement):
    """Nothing of a kind may be said. Judges word by word, together with the words before it.

    A word that may be the beginning of something longer is unknown, and so, with `hold` (the
    default), not delivered before the word that settles it.
    """

    judges = str

    def __init__(
        self, description: str, find: Find, unfinished: re.Pattern[str], **options: Any
    ) -> None:
        options = {"check_only": True, "hold": True, "chunking": "word", **options}
        super().__init__(description, simple_validate(self._judge_whole), **options)
        self._find = find
        self._unfinished = unfinished
        self._words: tuple[str, ...] = ()

    def stream_validate(
        self, chunk: str, *, backend: Backend | None, ctx: Context | None
    ) -> PartialValidationResult:
        """Look at the last words."""
        del backend, ctx
        text = " ".join((*self._words, chunk))
        # Of a long word only the end is looked at again, so that cost stays linear.
        self._words = (*self._words, chunk[-LONG_WORD:])[-WINDOW:]
        kind = self._find(text)
        if kind is not None:
            return PartialValidationResult("fail", reason=f"it contains {kind}")
        return UNKNOWN if self._unfinished.search(text) else PASS

    def _judge_whole(self, text: str) -> bool | tuple[bool, str]:
        kind = self._find(" ".join(text.split()))
        return True if kind is None else (False, f"it contains {kind}")


def no_secrets(**options: Any) -> Requirement:
    """No API keys, tokens or private keys, by the patterns of detect-secrets.

    The reason names the kind of secret, never the secret. Holds by default.

    Needs the extra ``streamval[privacy]``.

    Raises:
        UsageError: If it is not installed.

    Example:
        >>> no_secrets().hold
        True
    """
    detectors = _secret_detectors()

    def find(text: str) -> str | None:
        return next((kind for kind, pattern in detectors if pattern.search(text)), None)

    return NoLeak("no secrets", find, re.compile(r"-----BEGIN(?: [A-Z]+)*$"), **options)


def no_personal_data(region: str | None = None, **options: Any) -> Requirement:
    """No e-mail addresses, telephone numbers, payment card numbers or IBANs.

    Telephone numbers are found by phonenumbers (Google's library), card numbers and IBANs by
    their check digits (ISO/IEC 7812-1, ISO 13616). Names and addresses are not looked for. The
    reason names the kind, never the data. Holds by default.

    Needs the extra ``streamval[privacy]``.

    Args:
        region: Country (ISO 3166-1, two letters) whose numbers are recognised without a prefix
            such as +49.
        **options: As for `Requirement`.

    Raises:
        UsageError: If it is not installed, or the region is unknown.

    Example:
        >>> no_personal_data("US").description
        'no personal data'
    """
    phonenumbers = _phonenumbers()
    if region is not None and region not in phonenumbers.SUPPORTED_REGIONS:
        message = f"region must be a country's two capital letters, such as 'US', not {region!r}"
        raise UsageError(message)

    def find(text: str) -> str | None:
        if _EMAIL.search(text):
            return "an e-mail address"
        if any(_has_card(found.group()) for found in _DIGITS.finditer(text)):
            return "a payment card number"
        if any(_is_iban(found[1]) for found in _IBAN.finditer(text)):
            return "an IBAN"
        if any(True for _ in phonenumbers.PhoneNumberMatcher(text, region)):
            return "a telephone number"
        return None

    return NoLeak("no personal data", find, _UNFINISHED_NUMBER, **options)


def allowed_hosts(hosts: Iterable[str], **options: Any) -> Requirement:
    """Links lead to these hosts only, or to hosts under them. Holds by default.

    Args:
        hosts: Such as ``["example.org"]``, which allows ``docs.example.org`` as well.
        **options: As for `Requirement`.

    Raises:
        UsageError: If there are none, or one of them is no host.

    Example:
        >>> allowed_hosts(["example.org"]).description
        'links lead to example.org only'
    """
    if isinstance(hosts, str):
        message = f"allowed_hosts takes a list; write allowed_hosts([{hosts!r}])"
        raise UsageError(message)
    allowed = [host.strip().casefold().rstrip(".") for host in hosts]
    if not allowed or not all(re.fullmatch(r"[\w.-]+", host) for host in allowed):
        message = f"allowed_hosts needs hosts, such as 'example.org', not {allowed}"
        raise UsageError(message)

    def find(text: str) -> str | None:
        for found in _URL.finditer(text):
            host = _host(found[1])
            if host and not any(host == known or host.endswith(f".{known}") for known in allowed):
                return f"a link to {host}"
        return None

    description = f"links lead to {', '.join(allowed)} only"
    options = {"check_only": False, **options}
    return NoLeak(description, find, _NEVER, **options)


_NEVER = re.compile(r"(?!)")
_EMAIL = re.compile(
    r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}"
    r"(?!(?:png|jpe?g|gif|svg|webp)\b)[^\W\d_]{2,24}(?![\w-])",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"(?<!\d)\d(?:[ -]?\d){12,63}")
# The first digits of the networks: Visa, Mastercard, American Express, Diners, Discover, and so on.
_CARD = re.compile(r"(?:4|5[1-5]|2[2-7]|3[0-9]|6)\d{12,18}")
# Looked for from each place on, as one that is none may stand right before one that is.
_IBAN = re.compile(r"\b(?=([A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}))")
# Browsers read a backslash as a slash, and need none behind http: at all.
_URL = re.compile(
    r"""
    (?: \bhttps?:[/\\]*                              # a link to the web
      | \b[a-z][a-z0-9+.-]{1,15}:[/\\]{2,}           # or with another scheme
      | (?<![^\s(\[<"'“]) [/\\]{2} (?=[\w-]+\.[a-z])   # or with that of the page
      | \b(?=www\.)
    )
    ([^\s<>"'`)\]“”]+)
    """,
    re.IGNORECASE | re.VERBOSE,
)
# The text ends in what may go on as a number: digits, a plus, an opening bracket, an IBAN's country.
_UNFINISHED_NUMBER = re.compile(
    r"(?:\+|\(|(?<![\d()/.-])\d[\d()/.-]*|\b[A-Z]{2}\d{2}[A-Z0-9 ]{0,40})$"
)


def _host(address: str) -> str:
    """The host of what stands behind a link's slashes, whatever the text around it adds."""
    host = re.split(r"[/\\?#]", address, maxsplit=1)[0].rpartition("@")[2]
    host = re.sub(r":\d*$", "", host.rstrip(".,;:!?*_~’…"))
    return host.strip(".*_~").casefold()


def _has_card(digits: str) -> bool:
    """Whether some of these groups of digits, one after the other, are a card's number."""
    groups = re.split(r"[ -]", digits)
    for start in range(len(groups)):
        number = ""
        for group in groups[start:]:
            number += group
            if _CARD.fullmatch(number) and _has_check_digit(number):
                return True
    return False


def _has_check_digit(number: str) -> bool:
    """Whether the last digit is right, by the algorithm of Luhn (ISO/IEC 7812-1, annex B)."""
    digits = [int(digit) for digit in reversed(number) if digit.isdigit()]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


def _is_iban(text: str) -> bool:
    """Whether some first part of it is an IBAN, by its check digits (ISO 13616: modulo 97)."""
    letters = text.replace(" ", "")
    return any(
        int("".join(str(int(c, 36)) for c in letters[4:end] + letters[:4])) % 97 == 1
        for end in range(15, min(len(letters), 34) + 1)
    )


@cache
def _secret_detectors() -> list[tuple[str, re.Pattern[str]]]:
    try:
        from detect_secrets.core.plugins.util import (  # an optional extra
            get_mapping_from_secret_type_to_class,
        )
        from detect_secrets.plugins.base import RegexBasedDetector
    except ImportError:
        message = "no_secrets() needs an extra: pip install 'streamval[privacy]'"
        raise UsageError(message) from None
    found: list[tuple[str, re.Pattern[str]]] = []
    plugin: Any
    for kind, plugin in get_mapping_from_secret_type_to_class().items():
        # Not those that go by entropy or by a variable's name, which are for source code; nor the
        # one for addresses, which are no secrets.
        if issubclass(plugin, RegexBasedDetector) and kind != "Public IP (ipv4)":
            article = "an" if kind[0] in "AEIOU" else "a"
            found += [(f"{article} {kind}", pattern) for pattern in plugin().denylist]
    return found


def _phonenumbers() -> Any:
    try:
        import phonenumbers  # an optional extra
    except ImportError:
        message = "no_personal_data() needs an extra: pip install 'streamval[privacy]'"
        raise UsageError(message) from None
    return phonenumbers
