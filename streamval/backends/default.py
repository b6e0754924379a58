"""The backend for a value of `backend=`."""

from __future__ import annotations

import os

from streamval.backends.base import Backend
from streamval.errors import UsageError


def default_backend(model: str | None = None) -> Backend:
    """Return the backend for a LiteLLM model, by default `$STREAMVAL_MODEL`; else the embedded model."""
    model = model or os.environ.get("STREAMVAL_MODEL")
    if model:
        from streamval.backends.litellm import LiteLLMBackend  # slow to import

        return LiteLLMBackend(model)
    from streamval.backends.local import LocalBackend  # an optional extra

    return LocalBackend()


def as_backend(given: Backend | str | None) -> Backend:
    """Return the backend for a value of `backend=`.

    Raises:
        UsageError: If it is neither a backend nor a model name.
    """
    if given is None or isinstance(given, str):
        return default_backend(given)
    if isinstance(given, Backend):
        return given
    if isinstance(given, type):
        hint = f"give an instance: {given.__name__}(…)"
    elif callable(given):
        hint = f"wrap the function: IterableBackend({getattr(given, '__name__', 'fn')})"
    else:
        hint = "give a Backend or a LiteLLM model name"
    raise UsageError(f"backend cannot be of type {type(given).__name__}; {hint}")
