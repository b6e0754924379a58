"""Requirements against leaks: secrets, personal data, links to other hosts.

All of them judge words, whatever the pipeline's chunks, so a key that arrives in four pieces is one
word when it is judged. All of them hold by default: text that may turn out to be a leak is kept from
the consumer until the verdict is certain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import regex
from pydantic_core import Url

from streamval.errors import UsageError
from streamval.requirements.base import Requirement
from streamval.requirements.chunk_rule import ChunkRule, failed
from streamval.requirements.leak_patterns import (
    LONGEST_LEAK,
    UNFINISHED_KEY,
    Find,
    PersonalData,
    key_finder,
    normalised,
    spans_in,
)
from streamval.requirements.masking import REPLACEMENT, Action, Masking, Span, check_action
from streamval.structured.as_read import LONGEST_TAG, entities_read, forms_of, markup_begun
from streamval.types.results import PASS, UNKNOWN, PartialValidationResult
from streamval.types.text import LETTER

WINDOW = 64
"""Words that are judged together: an IBAN with a dash after each letter has that many."""

LONG_WORD = 128
"""Characters at the end of a word that are judged again together with the words after it."""


class NoLeak(ChunkRule):
    """Forbids one kind of data. Judges word by word, together with the words before it.

    A word that may be the beginning of such data is unknown and so, with `hold` (the default), not
    delivered before the word that settles it. Words are judged as they are written, without escapes,
    and as they are read.
    """

    judges = str
    judges_all = True

    def __init__(
        self,
        description: str,
        find: Find,
        may_go_on: Callable[[str], object],
        spelled: Callable[[str], str] = normalised,
        **options: Any,
    ) -> None:
        options = {"check_only": True, "hold": True, "chunking": "word", **options}
        super().__init__(description, **options)
        self._find = find
        self._may_go_on = may_go_on
        self._spelled = spelled
        # The last words in each of their forms, as `forms_of` returns them; one, while all are the same.
        self._windows: tuple[tuple[str, ...], ...] = ((),)
        self._begun = ""  # the words of a tag that has not ended, and the windows before it
        self._before: tuple[tuple[str, ...], ...] = self._windows

    def check(self, chunk: str) -> PartialValidationResult:
        """Judge the last words, and together those of a tag, when it has ended."""
        tag = f"{self._begun} {chunk}" if self._begun else chunk
        before = self._before if self._begun else self._windows
        if len(tag) <= LONGEST_TAG and markup_begun(tag) is not None:
            self._begun, self._before = tag, before
            verdict = self._judge(chunk)
            return verdict if verdict.success == "fail" else UNKNOWN
        if self._begun and (verdict := self._judge(chunk)).success == "fail":
            return verdict
        self._begun, self._windows = "", before
        return self._judge(tag)

    def _judge(self, chunk: str) -> PartialValidationResult:
        forms = tuple(map(self._spelled, forms_of(chunk)))
        several = max(len(forms), len(self._windows))
        # The last form is that which is read: it stands for those that are left out.
        forms += forms[-1:] * (several - len(forms))
        windows = self._windows + self._windows[-1:] * (several - len(self._windows))
        verdict = PASS
        for form, window in zip(forms, windows, strict=True):
            text = " ".join((*window, form))
            if kind := self._find(text, len(text) - len(form)):
                return failed(f"it contains {kind}")
            if self._may_go_on(text):
                verdict = UNKNOWN
        # Only the end of a long word is kept, so that cost stays linear.
        made = [
            (*window, form[-LONG_WORD:])[-WINDOW:]
            for form, window in zip(forms, windows, strict=True)
        ]
        self._windows = tuple(dict.fromkeys(made))
        return verdict

    def check_whole(self, text: str) -> PartialValidationResult:
        """Judge the whole text."""
        for form in forms_of(text):
            if kind := self._find(" ".join(self._spelled(form).split())):
                return failed(f"it contains {kind}")
        return PASS


def no_secrets(
    *, action: Action = "fail", replacement: str = REPLACEMENT, **options: Any
) -> Requirement:
    """Forbid API keys, tokens and private keys, by the patterns of Kingfisher.

    It recognises some two hundred kinds (OpenAI's, Anthropic's, Google's, GitHub's, AWS's, …) by
    their format, not by the name of a variable. The reason names the kind of secret, never the
    secret. Holds by default.

    Needs the extra ``streamval-llm[privacy]``. The first call takes half a second.

    Args:
        action: `"fail"`, or `"mask"` to deliver the replacement in place of a secret and go on. A private key of
            several lines fails all the same.
        replacement: What is delivered then; ``{kind}`` is "secret".

    Raises:
        UsageError: If the extra is not installed.

    Example:
        >>> no_secrets().hold
        True
    """
    find = key_finder()
    return _no_leak(action, replacement, "no secrets", find, UNFINISHED_KEY.search, **options)


def no_personal_data(
    region: str | None = None,
    *,
    action: Action = "fail",
    replacement: str = REPLACEMENT,
    **options: Any,
) -> Requirement:
    """Forbid e-mail addresses, telephone numbers, payment card numbers and IBANs.

    Telephone numbers are found by phonenumbers (Google's library), card numbers and IBANs by
    their check digits (ISO/IEC 7812-1, ISO 13616; python-stdnum), however their groups are
    separated and in whatever script their digits are. Names and addresses are not looked for. The
    reason names the kind, never the data. Holds by default.

    Needs the extra ``streamval-llm[privacy]``.

    Args:
        region: Country (ISO 3166-1, two letters) whose numbers are recognised without a prefix
            such as +49 or 0049.
        action: `"fail"`, or `"mask"` to deliver the replacement in place of the data and go on.
        replacement: What is delivered then; ``{kind}`` is "e-mail address", "telephone number", "payment card
            number" or "IBAN".

    Raises:
        UsageError: If the extra is not installed, or the region is unknown.

    Example:
        >>> no_personal_data("US").description
        'no personal data'
    """
    data = PersonalData(region)
    return _no_leak(action, replacement, "no personal data", data, data.may_go_on, **options)


def _no_leak(
    action: Action,
    replacement: str,
    description: str,
    find: Any,
    may_go_on: Callable[[str], object],
    **options: Any,
) -> Requirement:
    check_action(action)
    if action == "fail":
        return NoLeak(description, find, may_go_on, **options)

    def spans(text: str, new: int) -> Iterator[Span]:
        return spans_in(text, new, find.spans)

    def goes_on(text: str) -> object:
        return may_go_on(" ".join(normalised(text[-LONGEST_LEAK:]).split()))

    return Masking(NoLeak(description, find, may_go_on), spans, goes_on, replacement, **options)


def allowed_hosts(hosts: Iterable[str], **options: Any) -> Requirement:
    """Allow links to these hosts and their subdomains only. Holds by default.

    A link is what a reader could follow or a renderer would fetch: an address in the text, the
    destination of a link or picture in Markdown, an attribute of a tag. Escapes of Markdown, HTML and
    JSON are undone, and addresses are parsed as the WHATWG URL standard says. Relative links pass.

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
    known = {_host("//", host) for host in allowed}
    inside = tuple(f".{host}" for host in known)

    def find(text: str, new: int = 0) -> str | None:
        for host in sorted(hosts_in(text[new:])):
            if host not in known and not host.endswith(inside):
                return f"a link to {host}"
        return None

    description = f"links lead to {', '.join(allowed)} only"
    options = {"check_only": False, **options}
    # As a browser reads it: other spellings of a letter may lead elsewhere.
    return NoLeak(description, find, lambda _: False, str, **options)


# Browsers read a backslash as a slash, and accept http: without slashes.
_ADDRESS = re.compile(
    r"""
    ( (?<!LETTER)https?:[/\\]*                             # a link to the web
    | (?<!LETTER)[a-z][a-z0-9+.-]{1,15}:[/\\]{2,}          # or with another scheme
    | (?<![^\s(\[<"'“=,;`|]) [/\\]{2,} (?=[\w-]+\.[a-z]|\d+\.\d+\.\d+\.\d|\[[\da-f:])  # or with that of the page
    | (?<!LETTER)(?=www\.)
    )
    ([^\s<>]+)
    """.replace("LETTER", LETTER),
    re.IGNORECASE | re.VERBOSE,
)
# Where the address ends, unless a user's name and an @ follow: then the host stands behind them.
_END = re.compile(r"""["'`)\]“”]""")
# What a renderer takes as an address, with or without a scheme: the destination of a link or of a
# reference in Markdown, and anything in a tag, as attributes may have several addresses or styles in them.
_DESTINATION = re.compile(r"\](?:\(|:)\s*(?:<([^<>]*)|([^\s<>()]*))")
_TAG = regex.compile(r"""<[a-z](?:[^<>"']++|"[^"]*+"|'[^']*+')*+|<[a-z][^<>]*+""", regex.IGNORECASE)
_IN_TAG = re.compile(r"""(?:[\s,;(="']|\A)([/\\]{2,})([^\s"'<>),;]+)""")
_MAY_LEAD = re.compile(r"[/\\&]|www\.|https?:", re.IGNORECASE)
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
# Browsers leave out tabs and line breaks; the words of a chunk are joined by spaces.
_IGNORED = re.compile(r"[\x00-\x20]+")
_PATH = re.compile(r"[/\\?#]")
_AUTHORITY = re.compile(r"[/\\]{2,}")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_PUNCTUATION = ".,;:!?*_~’…"


def hosts_in(text: str) -> set[str]:
    r"""Return the hosts that links in a text lead to.

    Example:
        >>> sorted(hosts_in(r"[a](https\://a.org/x), <img src=//b.org>, www.c.org, [d](/d)"))
        ['a.org', 'b.org', 'www.c.org']
    """
    hosts: set[str] = set()
    if not _MAY_LEAD.search(text):
        return hosts
    plain = _ESCAPED.sub(r"\1", text)
    for form in dict.fromkeys((text, plain, entities_read(text), entities_read(plain))):
        for found in _ADDRESS.finditer(form):
            address = found[2]
            if "@" not in _PATH.split(address, maxsplit=1)[0]:
                address = _END.split(address, maxsplit=1)[0]
            hosts.add(_host(found[1] or "//", address.rstrip(_PUNCTUATION)))
        for found in _DESTINATION.finditer(form):
            address = _IGNORED.sub("", found[1] or found[2] or "")
            if start := _AUTHORITY.match(address) or _SCHEME.match(address):
                hosts.add(_host(start[0], address[start.end() :]))
        for tag in _TAG.findall(form) if "<" in form else ():
            # With white space, which ends an address, and without, as a browser reads an attribute.
            for within in (tag, _IGNORED.sub("", tag)):
                hosts |= {_host(*found.groups()) for found in _IN_TAG.finditer(within)}
    return hosts - {""}


def _host(start: str, address: str) -> str:
    """Return the host of an address, as a browser reads it; an empty string if there is none.

    Args:
        start: Its scheme, its slashes, or both.
        address: The rest.
    """
    try:
        url = Url(("https:" if start[0] in "/\\" else "") + start + address)
    except ValueError:  # no browser can follow it; a program that is not strict might
        host = re.split(r"[/\\?#]", address, maxsplit=1)[0].rpartition("@")[2]
    else:
        host = url.host or ""
    return host.strip(".*_~").casefold()
