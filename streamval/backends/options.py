"""The options of a generation: sampling, output and endpoint options, and a check for typos."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

from streamval.errors import UsageError

STALL_TIMEOUT = 120.0
"""Seconds without a delta before a generation fails, by default."""

SAMPLING = frozenset(
    {
        *("temperature", "seed", "max_tokens", "max_completion_tokens", "top_p", "top_k", "min_p"),
        *("stop", "presence_penalty", "frequency_penalty", "logit_bias", "n", "reasoning_effort"),
    }
)
"""Options of the sampling. A judge does not use the run's."""

_OUTPUT = frozenset(
    {
        *("response_format", "tools", "tool_choice", "parallel_tool_calls", "functions", "echo"),
        *("function_call", "logprobs", "top_logprobs", "prediction", "modalities", "audio"),
        *("stream", "stream_options", "suffix", "best_of", "n_predict", "json_schema", "grammar"),
    }
)

_PROVIDERS = SAMPLING | _OUTPUT | {"api_key", "api_base", "base_url", "timeout", "max_retries"}
_PROVIDERS |= {"extra_headers", "extra_body", "extra_query", "organization", "user", "metadata"}


def stall_timeout_of(
    options: Mapping[str, Any], default: float | None = STALL_TIMEOUT
) -> tuple[float | None, dict[str, Any]]:
    """Return the `stall_timeout` among model options, and the other options.

    Raises:
        UsageError: If it is not above 0.

    Example:
        >>> stall_timeout_of({"stall_timeout": 5, "seed": 1})
        (5, {'seed': 1})
    """
    others = dict(options)
    timeout = others.pop("stall_timeout", default)
    if timeout is not None and timeout <= 0:
        raise UsageError(f"stall_timeout must be above 0 seconds, or None, not {timeout!r}")
    return timeout, others


def endpoint_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that name an endpoint or a key: every option that does not shape the output.

    Judges use the same endpoint where there is no `validation_backend`.

    Example:
        >>> endpoint_options({"api_base": "http://localhost:1", "temperature": 0.5})
        {'api_base': 'http://localhost:1'}
    """
    return {name: value for name, value in options.items() if name not in SAMPLING | _OUTPUT}


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse options that no provider accepts.

    An unknown name is accepted, because each provider has its own, unless it resembles a known name.

    Raises:
        UsageError: If `n` is above 1, or a name is misspelt.

    Example:
        >>> check_options({"temprature": 3})
        Traceback (most recent call last):
        streamval.errors.UsageError: there is no option 'temprature'; did you mean 'temperature'?
    """
    if options.get("n") not in (None, 1):
        raise UsageError(
            f"n={options['n']!r} asks for several answers, and a run judges one; leave n out, and "
            "start several runs"
        )
    for name in options:
        if name not in _PROVIDERS and (near := _near(name, _PROVIDERS)):
            raise _unknown(name, near)


def check_names(options: Mapping[str, Any], known: Collection[str]) -> None:
    """Reject names that are not in `known`.

    Raises:
        UsageError: If a name is unknown.
    """
    for name in options:
        if name not in known:
            raise _unknown(name, _near(name, known))


def _near(name: str, known: Collection[str]) -> str | None:
    near = get_close_matches(name, known, n=1, cutoff=0.85)
    return near[0] if near else None


def _unknown(name: str, near: str | None) -> UsageError:
    hint = f"did you mean {near!r}?" if near else "look up its spelling"
    return UsageError(f"there is no option {name!r}; {hint}")
