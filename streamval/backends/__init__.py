"""Backends: who speaks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import lazy_loader as _lazy

if TYPE_CHECKING:
    from streamval.backends.base import Backend

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)


def default_backend(model: str | None = None) -> Backend:
    """A LiteLLM model by its name; without one `$STREAMVAL_MODEL`, else the embedded model."""
    model = model or os.environ.get("STREAMVAL_MODEL")
    if model:
        from streamval.backends.litellm import LiteLLMBackend  # noqa: PLC0415  slow to import

        return LiteLLMBackend(model)
    from streamval.backends.local import LocalBackend  # noqa: PLC0415  an optional extra

    return LocalBackend()
