"""What shallow copies of a requirement share by mistake: a list, dict or set that one of them changes."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from streamval.errors import SharedStateWarning

if TYPE_CHECKING:
    from streamval.requirements.base import Requirement

LOOKED_AT = 1000
"""Items of a container that are compared; of a longer one, its length is."""

_CONTAINERS = (list, dict, set, bytearray, deque)
_VALUES = (str, bytes, int, float, bool, type(None))


class SharedState:
    """The containers that an original and its copy share, as they are now.

    A requirement with a `__copy__` of its own says by it what is to be shared, and is not looked at.

    Args:
        original: The requirement.
        clone: Its copy, which is about to judge.

    Example:
        >>> from copy import copy
        >>> from streamval import Requirement
        >>> class Counts(Requirement):
        ...     def __init__(self):
        ...         self.seen = []
        >>> original = Counts()
        >>> shared = SharedState(original, copy(original))
        >>> original.seen.append(1)
        >>> shared.changed()
        ['seen']
    """

    __slots__ = ("_found", "_name")

    def __init__(self, original: Requirement, clone: Requirement) -> None:
        self._name = type(original).__name__
        self._found: list[tuple[str, Any, object]] = []
        if hasattr(type(original), "__copy__"):
            return
        ours = vars(original)
        shared = {name: value for name, value in vars(clone).items() if ours.get(name) is value}
        for cls in type(original).__mro__:
            if cls.__module__.partition(".")[0] != __name__.partition(".")[0]:  # a user's own class
                shared = {**vars(cls), **shared}
        for name, value in shared.items():
            if isinstance(value, _CONTAINERS) and not name.startswith("__"):
                self._found.append((name, value, _state(value)))

    def changed(self) -> list[str]:
        """The names of those that have changed since."""
        return [name for name, value, before in self._found if _state(value) != before]

    def warn(self) -> None:
        """Warn of each that has changed.

        Warns:
            SharedStateWarning: It says what to write instead.
        """
        for name in self.changed():
            message = (
                f"copies of {self._name} share {name!r}, and an attempt has changed it: the next "
                f"one begins with what is in it. Write self.{name} = [*self.{name}, item] in place "
                f"of self.{name}.append(item), and so on, or give {self._name} a __copy__"
            )
            warnings.warn(message, SharedStateWarning, stacklevel=2)


def _state(value: Collection[Any]) -> object:
    """What can be compared without asking the items: which they are, and how many."""
    if isinstance(value, bytearray):
        return bytes(value) if len(value) <= LOOKED_AT else len(value)
    if len(value) > LOOKED_AT:
        return len(value)
    if isinstance(value, Mapping):
        return [(_seen(key), _seen(item)) for key, item in value.items()]
    found = [_seen(item) for item in value]
    return set(found) if isinstance(value, set) else found


def _seen(item: object) -> object:
    """What stands for an item: its value if that is plain, else which one it is, and its size."""
    if type(item) in _VALUES:
        return item
    return (id(item), len(item) if isinstance(item, _CONTAINERS) else None)
