"""Requirements against leaks: secrets, personal data, links to other hosts.

All of them judge words, whatever the pipeline's chunks, so a key that arrives in four pieces is one
word when it is judged. All of them hold by default: text that may turn out to be a leak is kept from
the consumer until the verdict is certain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from streamval.errors import UsageError
from streamval.requirements.base import Requirement
from streamval.requirements.chunk_rule import ChunkRule, failed
from streamval.requirements.leak_patterns import (
    UNFINISHED_KEY,
    UNFINISHED_NUMBER,
    Find,
    PersonalData,
    key_finder,
    normalised,
)
from streamval.types.results import PASS, UNKNOWN, PartialValidationResult

WINDOW = 64
"""Words that are judged together: an IBAN with a dash after each letter has that many."""

LONG_WORD = 128
"""Characters at the end of a word that are judged again together with the words after it."""


class NoLeak(ChunkRule):
    """Forbids one kind of data. Judges word by word, together with the words before it.

    A word that may be the beginning of such data is unknown and so, with `hold` (the default), not
    delivered before the word that settles it.
    """

    judges = str
    judges_all = True

    def __init__(
        self, description: str, find: Find, unfinished: re.Pattern[str], **options: Any
    ) -> None:
        options = {"check_only": True, "hold": True, "chunking": "word", **options}
        super().__init__(description, **options)
        self._find = find
        self._unfinished = unfinished
        self._words: tuple[str, ...] = ()

    def check(self, chunk: str) -> PartialValidationResult:
        """Judge the last words."""
        chunk = normalised(chunk)
        text = " ".join((*self._words, chunk))
        # Only the end of a long word is kept, so that cost stays linear.
        self._words = (*self._words, chunk[-LONG_WORD:])[-WINDOW:]
        kind = self._find(text, len(text) - len(chunk))
        if kind is not None:
            return failed(f"it contains {kind}")
        return UNKNOWN if self._unfinished.search(text) else PASS

    def check_whole(self, text: str) -> PartialValidationResult:
        """Judge the whole text."""
        kind = self._find(" ".join(normalised(text).split()))
        return PASS if kind is None else failed(f"it contains {kind}")


def no_secrets(**options: Any) -> Requirement:
    """Forbid API keys, tokens and private keys, by the patterns of Kingfisher.

    It recognises some two hundred kinds (OpenAI's, Anthropic's, Google's, GitHub's, AWS's, …) by
    their format, not by the name of a variable. The reason names the kind of secret, never the
    secret. Holds by default.

    Needs the extra ``streamval-llm[privacy]``. The first call takes half a second.

    Raises:
        UsageError: If the extra is not installed.

    Example:
        >>> no_secrets().hold
        True
    """
    return NoLeak("no secrets", key_finder(), UNFINISHED_KEY, **options)


def no_personal_data(region: str | None = None, **options: Any) -> Requirement:
    """Forbid e-mail addresses, telephone numbers, payment card numbers and IBANs.

    Telephone numbers are found by phonenumbers (Google's library), card numbers and IBANs by
    their check digits (ISO/IEC 7812-1, ISO 13616; python-stdnum), however their groups are
    separated and in whatever script their digits are. Names and addresses are not looked for. The
    reason names the kind, never the data. Holds by default.

    Needs the extra ``streamval-llm[privacy]``.

    Args:
        region: Country (ISO 3166-1, two letters) whose numbers are recognised without a prefix
            such as +49 or 0049.

    Raises:
        UsageError: If the extra is not installed, or the region is unknown.

    Example:
        >>> no_personal_data("US").description
        'no personal data'
    """
    return NoLeak("no personal data", PersonalData(region), UNFINISHED_NUMBER, **options)


def allowed_hosts(hosts: Iterable[str], **options: Any) -> Requirement:
    """Allow links to these hosts and their subdomains only. Holds by default.

    Args:
        hosts: Such as ``["example.org"]``, which allows ``docs.example.org`` as well.

    Raises:
        UsageError: If there are no hosts, or one of them is not a host name.

    Example:
        >>> allowed_hosts(["example.org"]).description
        'links lead to example.org only'
    """
    if isinstance(hosts, str):
        raise UsageError(f"allowed_hosts takes a list; write allowed_hosts([{hosts!r}])")
    allowed = [host.strip().casefold().rstrip(".") for host in hosts]
    if not allowed or not all(re.fullmatch(r"[\w.-]+", host) for host in allowed):
        raise UsageError(f"allowed_hosts needs hosts, such as 'example.org', not {allowed}")

    def find(text: str, new: int = 0) -> str | None:
        for found in _URL.finditer(text):
            host = _host(found[1])
            if host and not any(host == known or host.endswith(f".{known}") for known in allowed):
                return f"a link to {host}"
        return None

    description = f"links lead to {', '.join(allowed)} only"
    options = {"check_only": False, **options}
    return NoLeak(description, find, _NEVER, **options)


_NEVER = re.compile(r"(?!)")
# Browsers read a backslash as a slash, and accept http: without slashes.
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


def _host(address: str) -> str:
    """Return the host in the text behind a link's slashes, without the punctuation around it."""
    host = re.split(r"[/\\?#]", address, maxsplit=1)[0].rpartition("@")[2]
    host = re.sub(r":\d*$", "", host.rstrip(".,;:!?*_~’…"))
    return host.strip(".*_~").casefold()
