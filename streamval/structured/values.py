"""Values of a JSON text as they complete, including objects and arrays."""

from __future__ import annotations

from typing import Any

from streamval.structured.json_events import JSONEvent, Root
from streamval.structured.reader import JSONReader


class ValueBuilder:
    """Makes Python values of a `JSONReader`'s events. Each value is made once, even if nested.

    Example:
        >>> builder = ValueBuilder()
        >>> events = JSONReader().feed('{"a": [1, 2], "b"')
        >>> [(event.path, value) for event in events for value in builder.take(event)]
        [('$.a[0]', 1), ('$.a[1]', 2), ('$.a', [1, 2])]
    """

    def __init__(self) -> None:
        self._open: list[dict[str, Any] | list[Any]] = []
        self._keys: list[str] = []

    def take(self, event: JSONEvent) -> tuple[Any, ...]:
        """Take the next event; return the value that it completes, if any."""
        value = event.value
        match event.kind:
            case "start_object":
                self._open.append({})
                return ()
            case "start_array":
                self._open.append([])
                return ()
            case "key":
                self._keys.append(value)
                return ()
            case "end":
                value = self._open.pop()
        if self._open:
            around = self._open[-1]
            if isinstance(around, list):
                around.append(value)
            else:
                around[self._keys.pop()] = value
        return (value,)


class ValueReader:
    """Returns values as they complete in a text that arrives in pieces.

    Args:
        root: As for `JSONReader`.

    Example:
        >>> ValueReader().feed('{"a": [1, 2], "b"')
        [('$.a[0]', 1), ('$.a[1]', 2), ('$.a', [1, 2])]
    """

    def __init__(self, root: Root | None = None) -> None:
        self._reader = JSONReader(root=root)
        self._builder = ValueBuilder()

    def feed(self, text: str) -> list[tuple[str, Any]]:
        """Take the next piece of text; return paths and values that complete in it."""
        return self.take(self._reader.feed(text))

    def take(self, events: list[JSONEvent]) -> list[tuple[str, Any]]:
        """Take events of another reader; return paths and values that complete in them."""
        return [(event.path, value) for event in events for value in self._builder.take(event)]
