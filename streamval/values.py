"""Values of a JSON text as they complete, with all that is in them."""

from __future__ import annotations

from contextlib import suppress
from io import SEEK_END, StringIO
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from streamval.json_stream import JSONReader

if TYPE_CHECKING:
    from streamval.json_stream import JSONEvent, Root


class ValueReader:
    """Values as they complete, objects and arrays with all that is in them.

    Cost and memory as of the text, times the depth of objects within objects.

    Args:
        root: As for `JSONReader`.

    Example:
        >>> ValueReader().feed('{"a": [1, 2], "b"')
        [('$.a[0]', 1), ('$.a[1]', 2), ('$.a', [1, 2])]
    """

    def __init__(self, root: Root | None = None) -> None:
        self._reader = JSONReader(root=root)
        self._text = StringIO()

    def feed(self, text: str) -> list[tuple[str, Any]]:
        """Take the next piece of text; return paths and values that complete in it."""
        self._text.seek(0, SEEK_END)
        self._text.write(text)
        values = []
        for event in self._reader.feed(text):
            if event.kind == "value":
                values.append((event.path, event.value))
            elif event.kind == "end":
                # What nests too deep, or holds half a surrogate, is left out.
                with suppress(ValueError):
                    values.append((event.path, self._whole(event)))
        return values

    def _whole(self, event: JSONEvent) -> Any:
        self._text.seek(event.start)
        return from_json(self._text.read(event.end - event.start))
