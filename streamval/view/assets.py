"""The scripts and styles of the pages, which lie in the folder ``assets``."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def asset(name: str) -> str:
    """Return the text of an asset, read once.

    Example:
        >>> asset("view.js").startswith("// Shows a run")
        True
    """
    return files("streamval.view").joinpath("assets", name).read_text(encoding="utf-8")
