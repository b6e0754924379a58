"""Requirements against leaks: secrets, personal data, links to other hosts.

All of these look at words, whatever the pipeline's chunks, so a key that arrives in four pieces is
one word by the time it is judged. And all hold by default: what may turn out to be a leak is kept
from the consumer until it is certain that it is none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from streamval.errors import UsageError
from streamval.requirements.base import Requirement, simple_validate
from streamval.requirements.function import PASS, UNKNOWN
from streamval.requirements.leaks import (
    UNFINISHED_KEY,
    UNFINISHED_NUMBER,
    PersonalData,
    key_finder,
    normalised,
)
from streamval.types.results import PartialValidationResult

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streamval.backends.base import Backend
    from streamval.requirements.leaks import Find
    from streamval.types.context import Context

WINDOW = 64
"""Words that are looked at together: an IBAN, letter by letter with dashes between, has that many."""


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
        chunk = normalised(chunk)
        text = " ".join((*self._words, chunk))
        # Of a long word only the end is looked at again, so that cost stays linear.
        self._words = (*self._words, chunk[-LONG_WORD:])[-WINDOW:]
        kind = self._find(text, len(text) - len(chunk))
        if kind is not None:
            return PartialValidationResult("fail", reason=f"it contains {kind}")
        return UNKNOWN if self._unfinished.search(text) else PASS

    def _judge_whole(self, text: str) -> bool | tuple[bool, str]:
        kind = self._find(" ".join(normalised(text).split()))
        return True if kind is None else (False, f"it contains {kind}")


def no_secrets(**options: Any) -> Requirement:
    """No API keys, tokens or private keys, by the patterns of Kingfisher.

    It knows some two hundred kinds (OpenAI's, Anthropic's, Google's, GitHub's, AWS's, …) by what
    they look like, and none by the name of a variable. The reason names the kind of secret, never
    the secret. Holds by default.

    Needs the extra ``streamval-llm[privacy]``. Making the first one takes half a second.

    Args:
        **options: As for `Requirement`.

    Raises:
        UsageError: If it is not installed.

    Example:
        >>> no_secrets().hold
        True
    """
    return NoLeak("no secrets", key_finder(), UNFINISHED_KEY, **options)


def no_personal_data(region: str | None = None, **options: Any) -> Requirement:
    """No e-mail addresses, telephone numbers, payment card numbers or IBANs.

    Telephone numbers are found by phonenumbers (Google's library), card numbers and IBANs by
    their check digits (ISO/IEC 7812-1, ISO 13616; python-stdnum), however their groups are
    separated and in whatever script their digits are. Names and addresses are not looked for. The
    reason names the kind, never the data. Holds by default.

    Needs the extra ``streamval-llm[privacy]``.

    Args:
        region: Country (ISO 3166-1, two letters) whose numbers are recognised without a prefix
            such as +49 or 0049.
        **options: As for `Requirement`.

    Raises:
        UsageError: If it is not installed, or the region is unknown.

    Example:
        >>> no_personal_data("US").description
        'no personal data'
    """
    return NoLeak("no personal data", PersonalData(region), UNFINISHED_NUMBER, **options)


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

    def find(text: str, new: int = 0) -> str | None:
        del new
        for found in _URL.finditer(text):
            host = _host(found[1])
            if host and not any(host == known or host.endswith(f".{known}") for known in allowed):
                return f"a link to {host}"
        return None

    description = f"links lead to {', '.join(allowed)} only"
    options = {"check_only": False, **options}
    return NoLeak(description, find, _NEVER, **options)


_NEVER = re.compile(r"(?!)")
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


def _host(address: str) -> str:
    """The host of what stands behind a link's slashes, whatever the text around it adds."""
    host = re.split(r"[/\\?#]", address, maxsplit=1)[0].rpartition("@")[2]
    host = re.sub(r":\d*$", "", host.rstrip(".,;:!?*_~’…"))
    return host.strip(".*_~").casefold()
