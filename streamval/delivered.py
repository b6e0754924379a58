"""What a run has delivered: text or sound, and the values in it where they are wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamval.errors import DeltaTypeError
from streamval.transcript import Transcript
from streamval.values import ValueReader

if TYPE_CHECKING:
    from streamval.chunks import Chunk
    from streamval.schema import Schema


class Delivered:
    """The output that stands so far.

    Args:
        nothing: No text, or no bytes.
        schema: What the output is to become an instance of, if anything.

    Attributes:
        chunks: How many chunks it has.
    """

    def __init__(self, nothing: str | bytes, schema: Schema[Any] | None) -> None:
        self._nothing = nothing
        self._kind = type(nothing)
        self._schema = schema
        self.clear()

    def clear(self) -> None:
        """Nothing stands."""
        self.chunks = 0
        self._raw: Transcript[Any] = Transcript(self._nothing)
        self._values = None if self._schema is None else ValueReader(self._schema.root)

    def add(self, chunk: Chunk) -> None:
        """A chunk is delivered.

        Raises:
            DeltaTypeError: If an operator has made something else of its text.
        """
        if type(chunk.text) is not self._kind:
            message = (
                f"chunk_operators gave a chunk whose text is {type(chunk.text).__name__}; it must "
                f"stay {self._kind.__name__}"
            )
            raise DeltaTypeError(message)
        self.chunks += 1
        self._raw.write(chunk.separator)
        self._raw.write(chunk.text)
        self._raw.compact()

    def values(self, chunk: Chunk) -> list[tuple[str, Any]]:
        """Paths and values that a chunk has completed."""
        return [] if self._values is None else self._values.feed(chunk.separator + chunk.text)

    @property
    def raw(self) -> str | bytes:
        """All of it."""
        raw: str | bytes = self._raw.getvalue()
        return raw

    @property
    def text(self) -> str:
        """All of it, if it is text."""
        return self.raw if isinstance(self.raw, str) else ""

    def parsed(self) -> Any:
        """The instance that it is, or `None`."""
        return None if self._schema is None else self._schema.parse_or_none(self.text)
