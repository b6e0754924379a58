"""The backend for whatever `backend=` may be given."""

from __future__ import annotations

import os

from streamval.backends.base import Backend
from streamval.errors import UsageError


def default_backend(model: str | None = None) -> Backend:
    """A LiteLLM model by its name; without one `$STREAMVAL_MODEL`, else the embedded model."""
    model = model or os.environ.get("STREAMVAL_MODEL")
    if model:
        from streamval.backends.litellm import LiteLLMBackend  # slow to import

        return LiteLLMBackend(model)
    from streamval.backends.local import LocalBackend  # an optional extra

    return LocalBackend()


def as_backend(given: Backend | str | None) -> Backend:
    """A backend from what `backend=` may be given.

    Raises:
        UsageError: If it is nothing that speaks.
    """
    if given is None or isinstance(given, str):
        return default_backend(given)
    if isinstance(given, Backend):
        return given
    hint = "an instance of it" if isinstance(given, type) else "a Backend or a LiteLLM model name"
    message = f"backend cannot be {given!r}; give {hint}"
    raise UsageError(message)
