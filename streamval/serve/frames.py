"""Frames of `text/event-stream`: taken from bytes, and made."""

from __future__ import annotations

import json
from typing import Any

from streamval.errors import StreamBrokenError

MAX_FRAME = 4 * 1024 * 1024
"""Bytes of one frame. A tool call may be long; a frame without an end is no frame."""


class FrameReader:
    """Takes pieces of bytes, and gives the data of each frame that is complete. Pure.

    Comments, names and ids are left out. However the bytes are cut, the frames are the same.

    Example:
        >>> reader = FrameReader()
        >>> reader.feed(b": hi\\n\\ndata: 1\\n"), reader.feed(b"\\ndata: 2\\r\\n\\r\\n")
        ([], [b'1', b'2'])
    """

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """Take a piece.

        Raises:
            StreamBrokenError: If a frame has no end.
        """
        rest = self._rest
        looked_at = len(rest)
        rest += piece
        if rest.find(b"\n", looked_at) < 0:
            if len(rest) > MAX_FRAME:
                message = f"the upstream sent a line of more than {MAX_FRAME:,} bytes"
                raise StreamBrokenError(message)
            return []
        *lines, last = bytes(rest).split(b"\n")
        self._rest = bytearray(last)
        frames = []
        for line in lines:
            line = line.rstrip(b"\r")  # noqa: PLW2901  the same line without its end
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
                self._size += len(line) + 1
            elif not line and self._data:
                frames.append(b"\n".join(self._data))
                self._data, self._size = [], 0
        if self._size > MAX_FRAME:
            message = f"the upstream sent a frame of more than {MAX_FRAME:,} bytes"
            raise StreamBrokenError(message)
        return frames


DONE = b"data: [DONE]\n\n"
PING = b": still there\n\n"


def frame(content: Any) -> bytes:
    """A frame of JSON.

    Example:
        >>> frame({"a": 1})
        b'data: {"a":1}\\n\\n'
    """
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"
