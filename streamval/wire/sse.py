"""Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html): frames."""

from __future__ import annotations

from codecs import BOM_UTF8
from typing import Any

from streamval.errors import StreamBrokenError
from streamval.wire.parts import written_json

MAX_FRAME = 4 * 1024 * 1024
"""Bytes of the longest frame. A tool call may be long; a frame without an end is an attack."""

DONE = "data: [DONE]\n\n"
"""The last frame of OpenAI's streams."""

PING = ": ping\n\n"
"""A comment, which clients ignore. It keeps a silent connection alive."""

MEDIA_TYPE = "text/event-stream"


def frame(content: Any, event: str | None = None) -> str:
    """Return a frame of JSON, with the name of its event if there is one.

    Example:
        >>> frame({"a": 1}), frame([], "patch")
        ('data: {"a":1}\\n\\n', 'event: patch\\ndata: []\\n\\n')
    """
    return text_frame(written_json(content), event)


def text_frame(data: str, event: str | None = None) -> str:
    """Return a frame of text in one line, such as JSON that has been written already."""
    return f"data: {data}\n\n" if event is None else f"event: {event}\ndata: {data}\n\n"


class FrameReader:
    """Takes bytes in pieces, returns the data of each frame that is complete.

    Comments, names and ids are ignored. The frames do not depend on how the bytes are split.

    Example:
        >>> reader = FrameReader()
        >>> reader.feed(b": hi\\n\\ndata: 1\\n"), reader.feed(b"\\ndata: 2\\r\\n\\r\\n")
        ([], [b'1', b'2'])
    """

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._begun = False

    def feed(self, piece: bytes) -> list[bytes]:
        """Take a piece.

        Raises:
            StreamBrokenError: If a line or a frame is longer than `MAX_FRAME`.
        """
        rest = self._rest
        searched = len(rest)
        rest += piece
        if rest.find(b"\n", searched) < 0 and rest.find(b"\r", searched) < 0:
            if len(rest) > MAX_FRAME:
                raise StreamBrokenError(
                    f"the upstream sent a line of more than {MAX_FRAME:,} bytes"
                )
            return []
        if not self._begun:
            self._begun = True
            rest = rest.removeprefix(BOM_UTF8)
        lines = rest.splitlines(keepends=True)
        # A line that ends with a carriage return may still end with a line feed.
        whole = lines[-1].endswith(b"\n")
        self._rest = bytearray() if whole else lines.pop()
        frames = []
        for ended in lines:
            line = ended.rstrip(b"\r\n")
            if line.startswith(b"data:"):
                self._data.append(bytes(line[5:].removeprefix(b" ")))
                self._size += len(line) + 1
            elif not line and self._data:
                frames.append(b"\n".join(self._data))
                self._data, self._size = [], 0
        if self._size > MAX_FRAME:
            raise StreamBrokenError(f"the upstream sent a frame of more than {MAX_FRAME:,} bytes")
        return frames
