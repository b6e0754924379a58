"""Displays objects in a notebook, and imports `streamval.view` only then.

Many classes have a `_repr_html_`. `streamval.view` draws them and imports their modules, so these
cannot import it. Instead, `streamval/__init__.py` registers a function that loads it, and it
is loaded when a notebook first asks for a picture.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from streamval.errors import RunError


class Viewer(Protocol):
    """The part of `streamval.view` that draws objects."""

    def to_html(self, thing: object) -> str:
        """Return the HTML of an object, without scripts."""

    def live_run(self, run: Any) -> Any:
        """Return a widget that shows a run while it is driven."""


_loaders: list[Callable[[], Viewer]] = []


def register_viewer(load: Callable[[], Viewer]) -> None:
    """Register the viewer. `load` is called for each picture, so nothing is imported before the first."""
    _loaders[:] = [load]


def viewer() -> Viewer:
    """Return the registered viewer.

    Raises:
        RunError: If nothing has been registered.
    """
    if not _loaders:
        raise RunError("no viewer is registered; import streamval first")
    return _loaders[0]()


def html_of(thing: object) -> str:
    """Return the HTML that Jupyter shows for an object. Assign this function to `_repr_html_`.

    Example:
        >>> from streamval.types.chunks import Chunk
        >>> "Hello." in html_of(Chunk("Hello.", 0, 0, 6))
        True
    """
    return viewer().to_html(thing)
