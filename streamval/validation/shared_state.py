"""Finds containers that shallow copies of a requirement share with it by mistake, such as a list."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from streamval.errors import SharedStateWarning
from streamval.requirements.base import Requirement

LOOKED_AT = 1000
"""Containers up to this size are compared item by item, longer ones by their length."""

_CONTAINERS = (list, dict, set, bytearray, deque)
_VALUES = (str, bytes, int, float, bool, type(None))


class SharedState:
    """The containers that a requirement shares with its copies, as they are now.

    A requirement with its own `__copy__` is not checked.

    Args:
        original: The requirement, whose copies are about to judge.

    Example:
        >>> from streamval import Requirement
        >>> class Counts(Requirement):
        ...     def __init__(self):
        ...         self.seen = []
        >>> original = Counts()
        >>> shared = SharedState(original)
        >>> original.seen.append(1)
        >>> shared.changed()
        ['seen']
    """

    __slots__ = ("_found", "_name")

    def __init__(self, original: Requirement) -> None:
        self._name = type(original).__name__
        self._found: list[tuple[str, Any, object]] = []
        if hasattr(type(original), "__copy__"):
            return
        shared: dict[str, Any] = {
            name: value for name, value in vars(original).items() if isinstance(value, _CONTAINERS)
        }
        for cls in _own_classes(type(original).__mro__):
            for name, value in vars(cls).items():
                if isinstance(value, _CONTAINERS) and not name.startswith("__"):
                    shared.setdefault(name, value)
        self._found = [(name, value, _state(value)) for name, value in shared.items()]

    def changed(self) -> list[str]:
        """Return the names of the containers that have changed since."""
        return [name for name, value, before in self._found if _state(value) != before]

    def warn(self) -> None:
        """Warn of each container that has changed.

        Warns:
            SharedStateWarning: With the code to write instead.
        """
        for name in self.changed():
            message = (
                f"copies of {self._name} share {name!r}, and an attempt has changed it: the next "
                f"one begins with its content. Assign a new object to self.{name} (such as "
                f"[*self.{name}, item] or self.{name} | {{item}}) instead of changing it, or give "
                f"{self._name} a __copy__"
            )
            warnings.warn(message, SharedStateWarning, stacklevel=2)


@lru_cache
def _own_classes(classes: tuple[type, ...]) -> list[type]:
    """Return the classes that are not of this library."""
    ours = __name__.partition(".")[0]
    return [one for one in classes if one.__module__.partition(".")[0] not in (ours, "builtins")]


def _state(value: Collection[Any]) -> object:
    """Return the identities and the number of items, which can be compared without calling the items."""
    if isinstance(value, bytearray):
        return bytes(value) if len(value) <= LOOKED_AT else len(value)
    if len(value) > LOOKED_AT:
        return len(value)
    if isinstance(value, Mapping):
        return [(_seen(key), _seen(item)) for key, item in value.items()]
    found = [_seen(item) for item in value]
    return set(found) if isinstance(value, set) else found


def _seen(item: object) -> object:
    """Return the value of a plain item, else its identity and size."""
    if type(item) in _VALUES:
        return item
    return (id(item), len(item) if isinstance(item, _CONTAINERS) else None)
