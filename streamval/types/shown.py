"""`html_of`: how things look in a notebook."""

from __future__ import annotations

from importlib import import_module


def html_of(thing: object) -> str:
    """What Jupyter shows of a thing: assign it to `_repr_html_` in the class.

    The pictures are made in `streamval.view.html`, far above what flows. It is found by its name, as a
    plug-in is, and only when something is to be shown: so what flows does not depend on how it looks.

    Example:
        >>> from streamval.types.chunks import Chunk
        >>> "Hello." in html_of(Chunk("Hello.", 0, 0, 6))
        True
    """
    html: str = import_module("streamval.view.html").picture(thing)
    return html
