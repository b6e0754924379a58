"""The delivered output of a run: text or sound, reasoning, calls of tools, and for a `format` the values in it."""

from __future__ import annotations

from typing import Any

from streamval.errors import DeltaTypeError
from streamval.requirements.schema import MatchesSchema
from streamval.structured.schema import Schema
from streamval.structured.values import ValueReader
from streamval.types.chunks import Chunk
from streamval.types.messages import ToolCall
from streamval.types.transcript import Transcript


class Delivered:
    """The output that stands so far.

    Args:
        nothing: The empty text, or the empty bytes of sound.
        schema: The type that the output is parsed as, if any.
        rewritten: Whether a user's operators may have changed the chunks.

    Attributes:
        chunks: How many chunks of text it has.
        thoughts: How many chunks of reasoning.
        calls: The calls of tools.
    """

    def __init__(
        self, nothing: str | bytes, schema: Schema[Any] | None, *, rewritten: bool = False
    ) -> None:
        self._nothing = nothing
        self._rewritten = rewritten
        self._kind = type(nothing)
        self._schema = schema
        self.clear()

    def clear(self) -> None:
        """Drop everything: no output stands."""
        self.drop_reasoning()
        self.calls: list[ToolCall] = []
        self.chunks = 0
        self._end = 0
        self._raw: Transcript[Any] = Transcript(self._nothing)
        self._values = None if self._schema is None else ValueReader(self._schema.root)

    def drop_reasoning(self) -> None:
        """Drop the reasoning, as the next attempt does not go on from it."""
        self.thoughts = 0
        self._reasoning = Transcript("")

    def add_reasoning(self, chunk: Chunk) -> None:
        """Add a delivered chunk of reasoning."""
        self.thoughts += 1
        self._reasoning.write(chunk.separator)
        self._reasoning.write(chunk.text)
        self._reasoning.compact()

    @property
    def reasoning(self) -> str:
        """The whole reasoning."""
        return self._reasoning.getvalue()

    def add(self, chunk: Chunk) -> None:
        """Add a delivered chunk of text or sound.

        Raises:
            DeltaTypeError: If an operator has changed the type of its text.
        """
        if type(chunk.text) is not self._kind:
            raise DeltaTypeError(
                f"chunk_operators gave a chunk whose text is {type(chunk.text).__name__}; it must "
                f"stay {self._kind.__name__}"
            )
        self.chunks += 1
        self._end = chunk.end
        raw = self._raw
        if chunk.separator:
            raw.write(chunk.separator)
        raw.write(chunk.text)
        raw.compact()

    def values(self, chunk: Chunk) -> list[tuple[str, Any]]:
        """Return the paths and values that a chunk completes."""
        if self._values is None:
            return []
        reading = None if self._rewritten else getattr(chunk, "reading", None)
        if reading is not None and self._schema is not None and reading.root == self._schema.root:
            return self._values.take(reading.events) if reading.events else []
        return self._values.feed(chunk.separator + chunk.text)

    @property
    def raw(self) -> str | bytes:
        """The whole output."""
        raw: str | bytes = self._raw.getvalue()
        return raw

    @property
    def text(self) -> str:
        """The whole output, if it is text."""
        return self.raw if isinstance(self.raw, str) else ""

    def full_text(self, written: str | bytes) -> str:
        """Return the whole output, with the whitespace behind its last chunk in what the model has `written`."""
        text = self.text
        if not self.chunks or not isinstance(written, str):
            return text
        behind = written[self._end :]
        return text + behind if behind.isspace() else text

    def parsed(self, judge: MatchesSchema | None) -> Any:
        """Return the output as an instance of the schema's type, or `None`.

        Args:
            judge: The clone that judged the output by the schema, and may have made the instance.
        """
        if self._schema is None:
            return None
        if judge is None or self._rewritten:
            return self._schema.parse_or_none(self.text)
        return judge.instance_in(self.text)
