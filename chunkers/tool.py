"""`ToolChunker`: calls of tools as chunks: the name, then each piece of the arguments, read as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from math import isfinite
from secrets import token_hex
from typing import Any, Literal

from streamval.chunkers.json import JSONDelta
from streamval.errors import StreamBrokenError
from streamval.structured.reader import JSONReader
from streamval.types.channels import Channel
from streamval.types.chunks import Chunk
from streamval.types.deltas import ToolCallDelta
from streamval.types.messages import ToolCall
from streamval.types.text import Mender, mended

MAX_CALLS = 128
"""The most calls of one answer."""

MAX_ARGUMENTS = 4 * 1024 * 1024
"""Characters of the longest name and arguments of a call."""


@dataclass(frozen=True)
class ToolChunk(JSONDelta):
    """A piece of a call of a tool: its name, a piece of its arguments, or (a line break) its end.

    Attributes:
        name: The name of the tool.
        part: Which of the three it is.
        whole: With the end, the whole call; its `arguments` are `None` where they are not JSON.
    """

    channel: Channel = "tool"
    call: int = 0
    name: str = ""
    part: Literal["name", "arguments", "end"] = "arguments"
    whole: ToolCall | None = None


class _Call:
    """A call that is being written.

    Attributes:
        named: Whether its name has been returned.
        ended: Whether its end has been returned.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.id: str | None = None
        self.signature: str | None = None
        self.name = ""
        self.named = self.ended = False
        self.reader = JSONReader(root="object", only_json=True)
        self.mender = Mender()
        self.raw: list[str] = []
        self.size = 0

    def whole(self) -> ToolCall:
        raw = "".join(self.raw).strip() or "{}"  # a call without arguments
        # All servers accept an id of nine characters.
        name, arguments = self.name, read_arguments(raw)
        return ToolCall(
            self.number, self.id or token_hex(5)[:9], name, arguments, raw, self.signature
        )


def read_arguments(raw: str) -> Any:
    """Return the arguments of a call, parsed; `None` where they are not JSON."""
    try:
        return json.loads(raw, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError):
        return None


_SIGNATURE = re.compile(r"[A-Za-z0-9+/_=-]{1,65536}")
"""Base64: no text, which nothing would judge."""


def _begins_another(delta: ToolCallDelta, call: _Call) -> bool:
    if not delta.name or (delta.id and delta.id == call.id):
        return False
    is_whole = call.reader.ended_at is not None and delta.arguments.lstrip()[:1] == "{"
    return is_whole or bool(call.id and delta.id)


_ID = re.compile(r"[\w.:+/=-]{1,256}", re.ASCII)


def _id_in(given: str | None) -> str | None:
    """Return a provider's id of a call; a new one in place of text, which nothing judges."""
    if given is None or _ID.fullmatch(given):
        return given
    return token_hex(5)[:9]


def _finite(written: str) -> float:
    """Read a number. One that is too large, `NaN` and `Infinity` would be no JSON in an event."""
    if not isfinite(number := float(written)):
        raise ValueError(written)
    return number


class ToolChunker:
    """Cuts calls of tools: the name is a chunk, each delta of the arguments, and the end.

    Calls may be written one after another or mixed. A call ends when the object of its arguments does and its
    id is known, else at `flush`. A name is a chunk as soon as it is certain: it is the name of one of the tools and
    begins no other's, or no tool's name begins with it, or arguments follow.

    Args:
        names: The names of the tools.

    Example:
        >>> chunker = ToolChunker(["now", "weather"])
        >>> pieces = [ToolCallDelta(0, "c1", "weather"), ToolCallDelta(0, arguments='{"city": "Pa'),
        ...           ToolCallDelta(0, arguments='ris"}')]
        >>> [chunk.text for piece in pieces for chunk in chunker.feed(piece)]
        ['weather', '{"city": "Pa', 'ris"}', '\\n']
    """

    def __init__(self, names: Collection[str] = ()) -> None:
        self._names = names
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._index = 0
        self._end = 0

    def feed(self, delta: ToolCallDelta) -> list[Chunk]:
        """Take a piece of a call; return the chunks that it completes.

        Raises:
            StreamBrokenError: If there are more than `MAX_CALLS` calls, or a call is longer than `MAX_ARGUMENTS`.
        """
        call = self._call_of(delta)
        chunks: list[Chunk] = []
        if delta.name and not call.named:
            call.name += mended(delta.name)
        elif (
            delta.name and delta.name != call.name
        ):  # some servers send the whole name with each piece
            raise StreamBrokenError(
                f"the model went on with a tool's name after {call.name!r:.60}: {delta.name!r:.60}"
            )
        call.size += len(delta.arguments) + len(delta.name or "")
        if call.size > MAX_ARGUMENTS:
            raise StreamBrokenError(f"a tool call has more than {MAX_ARGUMENTS:,} characters")
        if not call.named and call.name and self._is_certain(call.name):
            chunks.append(self._name(call))
        chunks += self._arguments(call, call.mender.feed(delta.arguments))
        if call.reader.ended_at is not None and call.id is not None and not call.ended:
            chunks.append(self._end_of(call))
        return chunks

    def pause(self) -> list[Chunk]:
        """Return the ends of the calls that may be complete, as the model goes on on another channel."""
        return self.flush(begun=False)

    def flush(self, *, begun: bool = True) -> list[Chunk]:
        """Return the ends of the calls that are open. More may be fed afterwards.

        Args:
            begun: Whether a call ends whose arguments have begun, and are not complete.
        """
        chunks: list[Chunk] = []
        for call in self._calls:
            if not call.ended and (begun or call.reader.ended_at is not None or not call.raw):
                chunks += self._arguments(call, call.mender.flush())
                if not call.named:
                    chunks.append(self._name(call))
                chunks.append(self._end_of(call))
        return chunks

    def _call_of(self, delta: ToolCallDelta) -> _Call:
        """Return the call that a piece belongs to.

        Some servers give index 0 to every call: a piece with a name and another id begins a new one, and so does
        one with a name and an object behind a call that is complete. Others give a new id to each piece: the first
        counts.
        """
        call = self._by_index.get(delta.index)
        if call is None or _begins_another(delta, call):
            if len(self._calls) == MAX_CALLS:
                raise StreamBrokenError(f"the model sent more than {MAX_CALLS} tool calls")
            call = self._by_index[delta.index] = _Call(len(self._calls))
            self._calls.append(call)
        call.id = call.id or _id_in(delta.id)
        if delta.signature is not None and _SIGNATURE.fullmatch(delta.signature):
            call.signature = delta.signature
        return call

    def _is_certain(self, name: str) -> bool:
        """Return whether more letters would not change which tool is meant."""
        longer = [one for one in self._names if one.startswith(name)]
        return bool(self._names) and longer in ([], [name])

    def _name(self, call: _Call) -> Chunk:
        call.named = True
        call.name = call.name or "?"  # no tool
        return self._chunk(call, call.name, part="name")

    def _arguments(self, call: _Call, text: str) -> list[Chunk]:
        if not text or (call.ended and not text.strip()):
            return []
        name = [] if call.named else [self._name(call)]
        call.raw.append(text)
        separator = "" if len(call.raw) > 1 else " "
        return [*name, self._chunk(call, text, separator, reading=call.reader.read(text))]

    def _end_of(self, call: _Call) -> Chunk:
        call.ended = True
        return self._chunk(call, "\n", part="end", whole=call.whole())

    def _chunk(self, call: _Call, text: str, separator: str = "", **more: Any) -> Chunk:
        start = self._end + len(separator)
        self._end = start + len(text)
        self._index += 1
        return ToolChunk(
            text,
            self._index - 1,
            start,
            self._end,
            separator,
            call=call.number,
            name=call.name,
            **more,
        )
