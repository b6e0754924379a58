"""`patch`: the changes between two snapshots, as a small message.

A patch is JSON. Its meaning depends on the value that it is applied to:

- an object: the members that are new or have changed, each a patch again;
- a list: ``{"keep": n, "add": [...]}``, the first `n` items and then these;
- a text that grows: ``{"add": "..."}``;
- anything else: the new value.

So a text that grows is sent once, and a page needs ten lines to keep up (``view.js``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any


def patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes.

    Args:
        before: The value that the other side has.
        after: The value that it should have. It has every member of `before`.

    Returns:
        A patch; an empty one where nothing is new.

    Example:
        >>> patch({"text": ["a"], "pending": "On"}, {"text": ["a", "b"], "pending": "One"})
        {'text': {'keep': 1, 'add': ['b']}, 'pending': {'add': 'e'}}
    """
    new: dict[str, Any] = {}
    for name, value in after.items():
        old = before.get(name)
        if name in before and (old is value or old == value):
            continue
        new[name] = _difference(old, value)
    return new


def patched(before: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Apply a patch, as ``view.js`` does.

    Example:
        >>> patched({"text": ["a"], "n": 1}, {"text": {"keep": 0, "add": ["b"]}})
        {'text': ['b'], 'n': 1}
    """
    after = dict(before)
    for name, new in change.items():
        old = before.get(name)
        match old, new:
            case Mapping(), Mapping():
                after[name] = patched(old, new)
            case list(), {"keep": int(keep), "add": list(added)}:
                after[name] = old[:keep] + added
            case str(), {"add": str(added)}:
                after[name] = old + added
            case _:
                after[name] = new
    return after


def _difference(old: Any, new: Any) -> Any:
    match old, new:
        case Mapping(), Mapping():
            return patch(old, new)
        case list(), list():
            keep = common_length(old, new)
            return {"keep": keep, "add": new[keep:]}
        case str(), str() if old and new.startswith(old):
            return {"add": new[len(old) :]}
    return new


def common_length(old: Sequence[Any], new: Sequence[Any]) -> int:
    """Return how many items, or characters, are the same at the beginning of both.

    Example:
        >>> common_length("flower", "flow"), common_length([1, 2], [1, 3])
        (4, 1)
    """
    shorter = min(len(old), len(new))
    if old[:shorter] == new[:shorter]:  # nearly always, and fast where they are the same objects
        return shorter
    same = takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False))
    return sum(1 for _ in same)
