"""Errors and clean-up that the backends of `openai` and LiteLLM share.

LiteLLM's errors inherit from those of the `openai` package, so one table of errors serves both.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Iterator
from typing import Any

from streamval.backends.base import GenerationRequest
from streamval.backends.secrets import secrets_in, without_secrets
from streamval.errors import (
    AuthenticationError,
    BackendError,
    ConnectionFailedError,
    RateLimitError,
    StreamBrokenError,
    UnknownModelError,
)
from streamval.wire.errors import error_class, server_error
from streamval.wire.sse import MEDIA_TYPE

SHOWN = 300
"""Characters of a server's message that an error repeats."""

_CUT = "Stream ended before a finish_reason was received"
"""What LiteLLM, from 1.110 on, says of a stream that was cut off."""


def broken_off(model: str, response: Any) -> StreamBrokenError:
    """Return the error for a stream that ended without a finish reason.

    Args:
        model: The name of the model.
        response: The HTTP response, if there is one.
    """
    content_type = getattr(response, "headers", {}).get("content-type", "").split(";")[0]
    if content_type and content_type != MEDIA_TYPE:
        return StreamBrokenError(
            f"{model} answered with {content_type}, which is not a stream: an error page, or another "
            "service; check api_base"
        )
    return StreamBrokenError(
        f"{model} broke off: its stream ended without a finish reason; try again, or check whether "
        "a proxy on the way cuts streams"
    )


def provider_error(
    error: Exception,
    model: str,
    request: GenerationRequest,
    *secrets: object,
    started: bool,
    answered: bool = False,
    key_from: str = "OPENAI_API_KEY",
) -> BackendError:
    """Return the `BackendError` for a provider's exception, with keys redacted.

    Args:
        error: The exception of the provider's library.
        model: The name of the model.
        request: The request. Its options may hold keys.
        *secrets: More options that may hold keys.
        started: Whether some output had come already.
        answered: Whether the server had answered, perhaps with an error.
        key_from: The environment variable that the key comes from.
    """
    import openai  # already loaded by the caller

    lines = without_secrets(str(error), request.options, *secrets).strip().splitlines()
    reason = lines[0][:SHOWN] if lines else type(error).__name__
    status = getattr(error, "status_code", None)
    kind = error_class(status)
    headers = getattr(getattr(error, "response", None), "headers", {})
    causes = list(_causes(error))
    if not answered and any(type(one) is openai.OpenAIError for one in causes):
        kind = AuthenticationError  # the client was not made, as it has no credentials
    if kind is RateLimitError or isinstance(error, openai.RateLimitError):
        busy = "asks for fewer requests; wait, lower task_limit, or pass max_retries="
        return server_error(429, f"{model} {busy}: {reason}", headers)
    if kind is AuthenticationError and not started:
        if not os.environ.get(key_from) and not secrets_in(request.options, *secrets):
            return no_key(model, key_from)
        problem = f"was refused by its provider: set another {key_from}, or pass api_key="
    elif started and _CUT in reason:
        return broken_off(model, None)
    elif started:
        kind, problem = StreamBrokenError, "broke off in mid-stream"
    elif kind is UnknownModelError:
        problem = "is not known to the provider; check the name and api_base"
    elif isinstance(error, openai.APITimeoutError):
        kind, problem = ConnectionFailedError, "did not answer in time"
    elif not answered and any(isinstance(one, openai.APIConnectionError) for one in causes):
        kind, problem = ConnectionFailedError, "does not answer; check the network and api_base"
    else:
        return server_error(status or 0, f"{model} failed: {reason}", headers)
    return kind(f"{model} {problem}: {reason}")


def no_key(model: str, key_from: str) -> AuthenticationError:
    """Return the error for a model without a key."""
    return AuthenticationError(
        f"there is no key for {model}: set {key_from}, or in Python pass api_key="
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, then the exceptions that it was raised from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


async def close(streams: Iterable[Any]) -> None:
    """Close streams and clients of any kind, in order."""
    for stream in streams:
        closing = getattr(stream, "aclose", None) or getattr(stream, "close", None)
        if closing is not None and inspect.isawaitable(done := closing()):
            await done
