"""How servers report errors, read and written.

status     error                       what it means
401        AuthenticationError         the key was refused
404        UnknownModelError           no such model
429        RateLimitError              too many requests; has `retry_after`
400 …      RefusedRequestError         the request is wrong (also 403, 413, 422), or its content is not allowed
other      BackendError                the server failed; from 500 on, a stream may be resumed
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from streamval.errors import (
    AuthenticationError,
    BackendError,
    ConnectionFailedError,
    RateLimitError,
    RefusedRequestError,
    StallError,
    StreamBrokenError,
    UnknownModelError,
)

A_DAY = 86_400.0
"""Seconds. A ``Retry-After`` of a day or more is ignored."""

_BY_STATUS: dict[int, type[BackendError]] = {
    401: AuthenticationError,
    404: UnknownModelError,
    429: RateLimitError,
    **dict.fromkeys((400, 403, 413, 422), RefusedRequestError),
}


def error_class(status: int | None) -> type[BackendError]:
    """Return the class of the error that a status of HTTP means.

    Example:
        >>> error_class(404).__name__, error_class(500).__name__
        ('UnknownModelError', 'BackendError')
    """
    return _BY_STATUS.get(status or 0, BackendError)


def server_error(status: int, message: str, headers: Mapping[str, str]) -> BackendError:
    """Return the error for what a server answered in place of a stream.

    Args:
        status: Of HTTP.
        message: What the error says.
        headers: Of the answer: a ``Retry-After`` among them is kept.

    Example:
        >>> error = server_error(503, "m failed", {"retry-after": "2"})
        >>> error.may_resume, error.retry_after, server_error(409, "m failed", {}).may_resume
        (True, 2.0, False)
    """
    error = error_class(status)(message)
    error.retry_after = retry_after(headers)
    error.may_resume = error.may_resume or status >= 500 or status == 408
    return error


def message_in(body: str) -> str:
    """Return the message in the body of an error: OpenAI's, or its first line.

    Example:
        >>> message_in('{"error": {"message": "no such model"}}'), message_in("Bad gateway\\n…")
        ('no such model', 'Bad gateway')
    """
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return body.strip().partition("\n")[0]


PASSED_ON = (
    "retry-after",
    "retry-after-ms",
    "x-should-retry",
    "x-ratelimit-",
    "anthropic-ratelimit-",
)
"""What the names of headers begin with that tell a client when it may ask again."""


def answer_in(
    status: int, body: str, headers: Mapping[str, str]
) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Return a server's error in OpenAI's form, its status, and the headers for its client.

    Example:
        >>> answer_in(429, '{"error": {"message": "slow", "code": "busy"}}', {"Retry-After": "2", "Server": "x"})
        (429, {'error': {'message': 'slow', 'type': 'upstream_error', 'param': None, 'code': 'busy'}}, {'retry-after': '2'})
    """
    try:
        said = json.loads(body)["error"]
        known = {name: said.get(name) for name in ("type", "code", "param")}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        known = {}
    texts = {name: value if isinstance(value, str) else None for name, value in known.items()}
    error = error_object(
        message_in(body),
        texts.get("type") or "upstream_error",
        texts.get("code"),
        texts.get("param"),
    )
    kept = {name.lower(): value for name, value in headers.items()}
    return (
        status,
        error,
        {name: value for name, value in kept.items() if name.startswith(PASSED_ON)},
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a ``Retry-After``. A date is left out, as clocks differ.

    Example:
        >>> retry_after({"retry-after": "1.5"}), retry_after({"retry-after": "-1"})
        (1.5, None)
    """
    try:
        seconds = float(headers.get("retry-after") or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < A_DAY else None


def error_object(
    message: str, kind: str, code: str | None = None, param: str | None = None
) -> dict[str, Any]:
    """Return an error as OpenAI writes it.

    Example:
        >>> error_object("no such model", "invalid_request_error")["error"]["message"]
        'no such model'
    """
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def error_answer(error: BackendError) -> tuple[int, dict[str, Any]]:
    """Return the status and the body for a client whose upstream failed.

    The upstream's own message is left out, as it was not judged, except for a refused request.

    Example:
        >>> error_answer(StallError("…"))
        (504, {'error': {'message': 'the upstream is silent', 'type': 'upstream_timeout', 'param': None, 'code': None}})
    """
    match error:
        case RateLimitError():
            status, kind, message = 429, "rate_limit_error", "the upstream asks for fewer requests"
        case StallError():
            status, kind, message = 504, "upstream_timeout", "the upstream is silent"
        case RefusedRequestError():  # about what the client asked, before anything was written
            status, kind, message = 400, "invalid_request_error", str(error)
        case StreamBrokenError():
            status, kind, message = 502, "upstream_error", "the upstream broke off"
        case ConnectionFailedError():
            status, kind, message = 502, "upstream_error", "the upstream does not answer"
        case _:
            status, kind, message = 502, "upstream_error", "the upstream failed"
    return status, error_object(message, kind)
