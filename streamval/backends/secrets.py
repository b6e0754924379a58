"""Finds and redacts keys."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

_NAMES = (
    *("key", "token", "secret", "password", "passwd", "pwd", "passphrase", "auth", "credential"),
    *("cookie", "bearer", "jwt", "signature"),
)
_WHOLE_NAMES = frozenset({"sig", "pw", "pass"})
_HEADERS = ("headers", "extra_headers", "default_headers")
_HARMLESS = frozenset(
    {
        *("max_tokens", "max_completion_tokens", "prompt_cache_key", "tokenizer", "token_size"),
        *("accept", "accept-encoding", "content-type", "user-agent", "connection", "host"),
    }
)

MASK = "***"
"""The replacement of a key."""

SHORTEST = 4
"""Characters of the shortest key. Masking shorter strings would make messages unreadable."""

SHORTEST_IN_ENVIRONMENT = 8
"""The same for environment variables, because a name with `KEY` may mean something else."""

PIECE = 12
"""Length of a piece of a key that is masked too, as a server may echo a truncated key."""

# A key that stands under its name, or is known by its form: ``api_key=K``, ``Bearer K``, ``sk-…``.
_NAMED = re.compile(
    r"""((?:
        (?:api[-_]?key|access[-_]?key|secret[-_]key|client[-_]secret|passw(?:or)?d
            |(?:access|auth|refresh)[-_]?token)
      | \b(?:authorization|bearer)
      | [?&](?:key|token|sig(?:nature)?)
    )["']?\s*(?:[:=]\s*|(?<=bearer\s))["']?(?:(?:bearer|basic)\s+)?)
    [^\s"',;&<>(){}]{4,}""",
    re.IGNORECASE | re.VERBOSE,
)
_BY_FORM = re.compile(
    r"\b(?:sk|pk|rk|xox[abeprs]|gh[opsu]|glpat|hf|npm)[-_][\w-]{12,}|\bAKIA\w{12,}"
)
_USER_IN_URL = re.compile(r"(?<=://)[^/@\s]+@")


def secrets_in(*sources: object) -> list[str]:
    """Return the keys in options: values under a name such as `api_key`, and headers.

    Args:
        *sources: Options, perhaps with mappings and lists in them.

    Returns:
        The keys; of ``Bearer K`` also `K`.

    Example:
        >>> secrets_in({"api_key": "sk-1234", "extra_headers": {"X-Gate": "Bearer open"}, "seed": 1})
        ['sk-1234', 'Bearer open', 'open']
    """
    return [
        secret
        for source in sources
        if isinstance(source, Mapping)
        for name, value in source.items()
        for secret in _under(str(name).lower(), value)
    ]


def _under(name: str, value: object) -> list[str]:
    if name in _HEADERS and isinstance(value, Mapping):
        return [
            secret
            for header, content in value.items()
            if not _is_harmless(str(header).lower())
            for secret in _words_of(content)
        ]
    if isinstance(value, (str, bytes)) or hasattr(value, "get_secret_value"):
        return _words_of(value) if _is_secret(name) else _in_address(value)
    if isinstance(value, (list, tuple)):
        return [secret for item in value for secret in _under(name, item)]
    return secrets_in(value)


def _is_harmless(header: str) -> bool:
    return header in _HARMLESS or header.startswith("x-stainless-")


def _in_address(value: object) -> list[str]:
    """Return the keys in an address: ``https://example.org/?key=K``."""
    if not isinstance(value, str) or "?" not in value:
        return []
    try:
        return secrets_in(dict(parse_qsl(urlsplit(value).query)))
    except ValueError:  # not an address
        return []


def _is_secret(name: str) -> bool:
    if name in _HARMLESS:
        return False
    return name in _WHOLE_NAMES or any(word in name for word in _NAMES)


def _words_of(value: object) -> list[str]:
    """Return a key, and the key behind ``Bearer``."""
    if hasattr(value, "get_secret_value"):  # pydantic's SecretStr
        value = value.get_secret_value()
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return [part for part in dict.fromkeys((text, *text.split()[1:])) if len(part) >= SHORTEST]


def secrets_of_environment() -> list[str]:
    """Return the values of environment variables that are named as keys (`AWS_SECRET_ACCESS_KEY`)."""
    return [
        value
        for name, value in os.environ.items()
        if _is_secret(name.lower()) and len(value) >= SHORTEST_IN_ENVIRONMENT
    ]


def without_secrets(text: str, *sources: object) -> str:
    """Redact a text: the keys in `sources` and in the environment, and users in URLs.

    Keys are found in any case, URL-encoded, in Base64, and if only a piece of the key is there. A key
    of neither is found by the name before it (``api_key=``, ``Bearer``) or by its form (``sk-…``).

    Args:
        text: Such as a server's message.
        *sources: As for `secrets_in`.

    Example:
        >>> without_secrets("no such key: SK-1234", {"api_key": "sk-1234"})
        'no such key: ***'
    """
    secrets = {*secrets_in(*sources), *secrets_of_environment()}
    for secret in sorted(secrets, key=len, reverse=True):
        spellings = {secret, *(quote(secret, safe=safe, errors="replace") for safe in ("", "/"))}
        spellings.add(b64encode(secret.encode(errors="replace")).decode().rstrip("="))
        for spelling in sorted(spellings, key=len, reverse=True):
            text = re.sub(re.escape(spelling), MASK, text, flags=re.IGNORECASE)
        if " " not in secret:  # of `Bearer K`, only K is a key
            text = _without_pieces(text, secret)
    text = _BY_FORM.sub(MASK, _NAMED.sub(rf"\1{MASK}", text))
    return _USER_IN_URL.sub(f"{MASK}@", text)


def masked(options: object) -> Any:
    """Return options with a mask in place of every key.

    Example:
        >>> masked({"seed": 1, "extra_headers": {"X-Gate": "open"}})
        {'seed': 1, 'extra_headers': {'X-Gate': '***'}}
    """
    return _masked("", options)


def _masked(name: str, value: object) -> Any:
    if isinstance(value, Mapping):
        if name in _HEADERS:
            return dict.fromkeys(value, MASK)
        return {key: _masked(str(key).lower(), item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_masked(name, item) for item in value]
    return MASK if _under(name, value) else value


def _without_pieces(text: str, secret: str) -> str:
    pieces = {secret[at : at + PIECE] for at in range(len(secret) - PIECE + 1)}
    kept: list[str] = []
    at = done = 0
    while pieces and at <= len(text) - PIECE:
        if text[at : at + PIECE] not in pieces:
            at += 1
            continue
        kept += (text[done:at], MASK)
        while at <= len(text) - PIECE and text[at : at + PIECE] in pieces:
            at += 1
        at = done = at + PIECE - 1
    return "".join([*kept, text[done:]])
