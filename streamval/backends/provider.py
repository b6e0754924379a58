"""What every provider's stream has in common: OpenAI's pieces, its end, and the ways to fail.

LiteLLM's pieces have the shape of OpenAI's, and its errors inherit from those of the `openai`
package. So one reading and one table of errors serve both.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from streamval.backends.base import Delta
from streamval.backends.secrets import secrets_in, without_secrets
from streamval.errors import (
    AuthenticationError,
    BackendError,
    ConnectionFailedError,
    RateLimitError,
    StreamBrokenError,
    UnknownModelError,
)
from streamval.types.results import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streamval.backends.base import GenerationRequest

SHOWN = 300
"""Characters of a server's message that an error repeats."""

A_DAY = 86_400.0
"""Seconds. A server that asks for a longer wait is not believed."""


def as_delta(piece: Any) -> Delta:
    """A piece of a chat or text completion as a delta. Of several answers, only the first counts.

    Raises:
        StreamBrokenError: If what should be text is something else, or the server says that it has
            failed.
    """
    choice = next((c for c in piece.choices or () if not getattr(c, "index", 0)), None)
    said = getattr(choice, "delta", None)
    reason = getattr(choice, "finish_reason", None)
    if reason == "error":  # how OpenRouter ends a stream that broke behind it
        message = "the server says that the generation has failed, and no more"
        raise StreamBrokenError(message)
    refusal = getattr(said, "refusal", None)
    return Delta(
        text=text_in(getattr(choice, "text", None) if said is None else said.content),
        usage=_usage(getattr(piece, "usage", None)),
        finish_reason=reason if reason and isinstance(reason, str) else None,
        refusal=refusal if isinstance(refusal, str) else None,
    )


def text_in(content: object) -> str:
    """The text in the content of a piece: a string, nothing, or (Mistral's) a list of parts.

    Raises:
        StreamBrokenError: If it is something else.

    Example:
        >>> text_in([{"type": "text", "text": "Hi"}, {"type": "thinking", "thinking": []}])
        'Hi'
    """
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list) and all(isinstance(part, Mapping) for part in content):
        return "".join(text_in(part.get("text")) for part in content)
    message = f"the server sent {type(content).__name__} where text is expected"
    raise StreamBrokenError(message)


def _usage(reported: Any) -> Usage | None:
    written = _count(getattr(reported, "completion_tokens", None))
    if not written:
        return None
    read = _count(getattr(reported, "prompt_tokens", None))
    return Usage(prompt_tokens=read, completion_tokens=written, source="backend")


def _count(number: object) -> int | None:
    return number if type(number) is int and number >= 0 else None


def broken_off(model: str, response: Any) -> StreamBrokenError:
    """The error for a stream that ended, and its last piece was not the end.

    Args:
        model: Whose stream.
        response: The response of HTTP, where there is one to look at.
    """
    content_type = getattr(response, "headers", {}).get("content-type", "").split(";")[0]
    if content_type and content_type != "text/event-stream":
        return StreamBrokenError(
            f"{model} answered with {content_type}, which is no stream: an error page, or another "
            "service; check api_base"
        )
    return StreamBrokenError(
        f"{model} broke off: its stream ended without a finish reason; try again, or look whether "
        "something between here and the provider cuts streams"
    )


def explained(
    error: Exception,
    model: str,
    request: GenerationRequest,
    *secrets: object,
    started: bool,
    answered: bool = False,
    key_from: str = "OPENAI_API_KEY",
) -> BackendError:
    """One clear error for each of the ways in which a provider fails, without a key in it.

    Args:
        error: What the provider's library raised.
        model: Whose stream.
        request: What was asked. Its options may hold keys.
        *secrets: More options that may.
        started: Whether something had come already.
        answered: Whether the server had answered, be it with an error.
        key_from: The variable of the environment that a key would come from.
    """
    import openai  # which the caller has loaded

    lines = without_secrets(str(error), request.options, *secrets).strip().splitlines()
    said = lines[0][:SHOWN] if lines else type(error).__name__
    kind: type[BackendError] = BackendError
    problem = "failed"
    match error:
        case openai.RateLimitError():
            kind = RateLimitError
            problem = "asks for fewer requests; wait, lower task_limit, or pass max_retries="
        case _ if started:
            kind, problem = StreamBrokenError, "broke off in mid-stream"
        case _ if isinstance(error, openai.AuthenticationError) or "Missing credentials" in said:
            kind = AuthenticationError
            if not os.environ.get(key_from) and not secrets_in(request.options, *secrets):
                return kind(f"there is no key for {model}: set {key_from}, or pass api_key=")
            problem = f"was refused by its provider: set another {key_from}, or pass api_key="
        case openai.NotFoundError():
            kind = UnknownModelError
            problem = "is not known to the provider; check the name and api_base"
        case openai.APITimeoutError():
            kind, problem = ConnectionFailedError, "did not answer in time"
        case openai.BadRequestError() if "LLM Provider NOT provided" in str(error):
            kind = UnknownModelError
            problem = (
                "is of no provider that LiteLLM knows; write it as 'provider/model', such as "
                "'openai/gpt-4o-mini'"
            )
        case _ if not answered and _is_nobody_there(error):
            kind = ConnectionFailedError
            problem = "does not answer; check the network and api_base"
    made = kind(f"{model} {problem}: {said}")
    if isinstance(made, RateLimitError):
        headers = getattr(getattr(error, "response", None), "headers", {})
        made.retry_after = seconds_in(headers.get("retry-after"))
    return made


def seconds_in(retry_after: str | None) -> float | None:
    """The seconds of a ``Retry-After``. A date is left out, as clocks differ; so is more than a day.

    Example:
        >>> seconds_in("1.5"), seconds_in("Sun, 22 Nov 2026 08:00:00 GMT"), seconds_in("-1")
        (1.5, None, None)
    """
    try:
        seconds = float(retry_after or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < A_DAY else None


def _is_nobody_there(error: Exception) -> bool:
    import openai  # which the caller has loaded

    return isinstance(error, openai.APIConnectionError) or "Connection error" in str(error)


async def close(streams: Iterable[Any]) -> None:
    """Close streams and clients of whatever kind, in order."""
    for stream in streams:
        closing = getattr(stream, "aclose", None) or getattr(stream, "close", None)
        if closing is not None and inspect.isawaitable(done := closing()):
            await done
