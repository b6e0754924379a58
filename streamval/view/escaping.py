"""Escapes untrusted text for pages: no markup, no control sequences, no invalid XML."""

from __future__ import annotations

import html
import re

from streamval.types.text import visible

# Not allowed in XML, or noncharacters. `visible` has replaced halves of surrogate pairs before.
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def escaped(text: str, limit: int | None = None) -> str:
    """Return a text for HTML and for SVG, in an element or in an attribute.

    Args:
        text: What a model, a server, a file or a requirement's author wrote.
        limit: How many characters to show at most; then an ellipsis follows.

    Example:
        >>> escaped("<b onclick='x'>\x1b[31m", 14)
        '&lt;b onclick=&#x27;x…'
    """
    if limit is not None and len(text) > limit:
        text = text[: limit - 1] + "…"
    return html.escape(_NO_XML.sub("\ufffd", visible(text)))
