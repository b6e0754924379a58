"""A mask: a span of a text that is delivered as something else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Mask(NamedTuple):
    """A span of the raw text on a channel, and what is delivered in its place.

    Attributes:
        start: Offset of its first character; of a call of a tool, in its arguments.
        end: Offset just past the last one.
        replacement: The text in its place.
        call: The number of the call of a tool that it is in; else `None`.
    """

    start: int
    end: int
    replacement: str
    call: int | None = None


def merged(masks: Iterable[Mask]) -> list[Mask]:
    """Return masks in order, each group that overlaps as one, with the replacement of the first.

    Example:
        >>> [tuple(mask)[:3] for mask in merged([Mask(4, 9, "[b]"), Mask(0, 5, "[a]"), Mask(9, 10, "[c]")])]
        [(0, 9, '[a]'), (9, 10, '[c]')]
    """
    whole: list[Mask] = []
    for mask in sorted(masks, key=lambda one: (one.start, -one.end)):
        if whole and mask.start < whole[-1].end:
            whole[-1] = whole[-1]._replace(end=max(whole[-1].end, mask.end))
        else:
            whole.append(mask)
    return whole


def applied(text: str, masks: Iterable[Mask], start: int = 0) -> str:
    """Return a text with its masks replaced.

    Args:
        text: The text.
        masks: In any order.
        start: The offset of the text. Of a mask that begins before it, the replacement is left out.

    Example:
        >>> applied("Call 555 or 666.", [Mask(5, 8, "[n]"), Mask(12, 15, "[n]")])
        'Call [n] or [n].'
    """
    parts: list[str] = []
    at, end = start, start + len(text)
    for mask in merged(masks):
        if mask.end <= at or mask.start >= end:
            continue
        parts.append(text[max(at - start, 0) : max(mask.start - start, 0)])
        if mask.start >= start:
            parts.append(mask.replacement)
        at = mask.end
    return "".join([*parts, text[at - start :]])
