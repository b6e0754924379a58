"""A requirement about links: the hosts that they lead to."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from pydantic_core import Url

from streamval.errors import UsageError
from streamval.requirements.base import Requirement
from streamval.requirements.privacy import NoLeak


def allowed_hosts(hosts: Iterable[str], **options: object) -> Requirement:
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
        # Only a tag and a destination may have begun in an earlier word.
        begun = max(text.rfind(opening, 0, new) for opening in ("<", "](", "]:"))
        for host in sorted(hosts_in(text[begun if begun >= 0 else new :])):
            if host not in known and not host.endswith(inside):
                return f"a link to {host}"
        return None

    description = f"links lead to {', '.join(allowed)} only"
    options = {"check_only": False, **options}
    return NoLeak(description, find, _UNFINISHED, **options)


# Browsers read a backslash as a slash, and accept http: without slashes.
_ADDRESS = re.compile(
    r"""
    ( \bhttps?:[/\\]*                                # a link to the web
    | \b[a-z][a-z0-9+.-]{1,15}:[/\\]{2,}             # or with another scheme
    | (?<![^\s(\[<"'“=,;`|]) [/\\]{2,} (?=[\w-]+\.[a-z])   # or with that of the page
    | \b(?=www\.)
    )
    ([^\s<>"'`)\]“”]+)
    """,
    re.IGNORECASE | re.VERBOSE,
)
# What a renderer takes as an address, with or without a scheme: the destination of a link or of a
# reference in Markdown, and any attribute in HTML.
_DESTINATION = re.compile(
    r"""
      \](?:\(|:)\s*(?:<([^<>]*)|([^\s<>()]*))
    | =\s*(?:"([^"]*)|'([^']*))
    | <[a-z][^<>]*?=\s*([^\s"'<>]+)
    """,
    re.IGNORECASE | re.VERBOSE,
)
# A tag or a destination in angle brackets that has not ended: it may have whitespace in it.
_UNFINISHED = re.compile(r"<[a-zA-Z/!][^<>]{0,2000}\Z|\](?:\(|:)\s*(?:<[^<>]{0,2000})?\Z")
_MAY_LEAD = re.compile(r"[/\\&]|www\.|https?:", re.IGNORECASE)
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
# Browsers leave out tabs and line breaks; the words of a chunk are joined by spaces.
_IGNORED = re.compile(r"[\x00-\x20]+")
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
    for form in dict.fromkeys((text, plain, html.unescape(text), html.unescape(plain))):
        for found in _ADDRESS.finditer(form):
            hosts.add(_host(found[1] or "//", found[2].rstrip(_PUNCTUATION)))
        for found in _DESTINATION.finditer(form):
            address = _IGNORED.sub("", next(filter(None, found.groups()), ""))
            if start := _AUTHORITY.match(address) or _SCHEME.match(address):
                hosts.add(_host(start[0], address[start.end() :]))
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
