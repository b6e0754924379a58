"""Reads the pieces of any stream that the packages of providers hand out."""

from __future__ import annotations

from typing import Any, TypeAlias

from streamval.types.deltas import Delta
from streamval.wire.anthropic_messages import EVENTS, MessagesReader
from streamval.wire.completions import CompletionReader
from streamval.wire.openai_responses import ResponsesReader
from streamval.wire.parts import part

Reader: TypeAlias = "CompletionReader | MessagesReader | ResponsesReader"


class StreamReader:
    """Takes the pieces of one stream, returns their deltas. The first piece that is known decides the format.

    Strings, deltas and pieces of an unknown kind are returned as they are. The helpers of the packages add events of
    their own between those of the protocol, which repeat their content; they are left out.

    Attributes:
        reader: The reader of the format; `None` before the first piece that is known.

    Example:
        >>> reader = StreamReader()
        >>> reader.read({"choices": [{"delta": {"content": "Hi"}}]}), reader.read("Hi")
        ([Delta('Hi')], ['Hi'])
    """

    def __init__(self) -> None:
        self.reader: Reader | None = None

    def read(self, piece: Any) -> list[Any]:
        """Read a piece.

        Raises:
            StreamBrokenError: If its content is not text, or the server says that it has failed.
        """
        if isinstance(piece, (str, bytes, Delta)) or piece is None:
            return [piece]
        kind = part(piece, "type")
        name = str(getattr(kind, "value", kind))
        if name == "chunk" and part(piece, "chunk") is not None:  # the helper of chat completions
            piece, name = part(piece, "chunk"), ""
        reader = self.reader
        if reader is None:
            reader = _reader_of(piece, name)
            if reader is None:
                return [piece]
            self.reader = reader
        if isinstance(reader, CompletionReader) and not _is_completion(piece):
            return []
        if isinstance(reader, MessagesReader) and name not in EVENTS:
            return []
        return reader.read(piece)


def _reader_of(piece: Any, name: str) -> Reader | None:
    if _is_completion(piece):
        return CompletionReader()
    if name.startswith("response."):
        return ResponsesReader()
    return MessagesReader() if name in EVENTS else None


def _is_completion(piece: Any) -> bool:
    return part(piece, "choices") is not None or part(piece, "object") == "chat.completion.chunk"
