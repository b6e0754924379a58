"""Anthropic's Messages: the events of a stream, read from dictionaries and from the objects of the `anthropic` package.

Source: https://docs.anthropic.com/en/docs/build-with-claude/streaming.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from streamval.errors import StreamBrokenError
from streamval.types.deltas import Delta, ToolCallDelta
from streamval.types.results import Usage
from streamval.wire.parts import count, index_in, part, text_in

EVENTS = frozenset(
    {
        *("message_start", "content_block_start", "content_block_delta", "content_block_stop"),
        *("message_delta", "message_stop", "ping", "error"),
    }
)
"""The types of the events. The helper of the `anthropic` package adds its own, which repeat their content."""


class MessagesReader:
    """Takes the events of a stream in order, returns their deltas.

    Signed and redacted thinking becomes opaque blocks, as the API wants them back. Blocks of tools that Anthropic
    executes are left out.

    Attributes:
        ended: Whether the stream has come to its end.

    Example:
        >>> reader = MessagesReader()
        >>> block = {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}}
        >>> reader.read(block)
        [Delta(reasoning='Hm.')]
    """

    def __init__(self) -> None:
        self.ended = False
        self._calls: dict[int, int] = {}  # by the index of the block
        self._thought: dict[int, dict[str, str]] = {}
        self._prompt: dict[str, int | None] = {}

    def read(self, event: Any) -> list[Delta]:
        """Read an event.

        Raises:
            StreamBrokenError: If the server reports an error, or its content is not text.
        """
        index = index_in(part(event, "index"))
        match str(part(event, "type")):
            case "message_start":
                return self._usage(part(part(event, "message"), "usage"))
            case "content_block_start":
                return self._begin(index, part(event, "content_block"))
            case "content_block_delta":
                return self._go_on(index, part(event, "delta"))
            case "content_block_stop":
                return self._end(index)
            case "message_delta":
                reason = part(part(event, "delta"), "stop_reason")
                self.ended = self.ended or bool(reason)
                ended = Delta(finish_reason=reason if isinstance(reason, str) else None)
                return [*self._usage(part(event, "usage")), ended]
            case "error":
                said = part(part(event, "error"), "message")
                raise StreamBrokenError(f"the server reports an error: {str(said)[:300]}")
        return []

    def _begin(self, index: int, block: Any) -> list[Delta]:
        match part(block, "type"):
            case "text":
                text = text_in(part(block, "text"))
                return [Delta(text)] if text else []
            case "thinking":
                signature = text_in(part(block, "signature"))
                self._thought[index] = {"thinking": "", "signature": signature}
                return self._think(index, text_in(part(block, "thinking")))
            case "redacted_thinking":
                data = {"type": "redacted_thinking", "data": part(block, "data")}
                return [Delta(opaque=data)]
            case "tool_use":
                number = self._calls[index] = len(self._calls)
                given = part(block, "input")  # sent whole by some servers
                arguments = json.dumps(given) if isinstance(given, Mapping) and given else ""
                key, name = part(block, "id"), text_in(part(block, "name"))
                call = ToolCallDelta(number, key if isinstance(key, str) else None, name, arguments)
                return [Delta(tool_call=call)]
        return []

    def _go_on(self, index: int, delta: Any) -> list[Delta]:
        match part(delta, "type"):
            case "text_delta":
                return [Delta(text_in(part(delta, "text")))]
            case "thinking_delta":
                return self._think(index, text_in(part(delta, "thinking")))
            case "signature_delta":
                thought = self._thought.setdefault(index, {"thinking": "", "signature": ""})
                thought["signature"] += text_in(part(delta, "signature"))
            case "input_json_delta" if index in self._calls:
                arguments = text_in(part(delta, "partial_json"))
                return [Delta(tool_call=ToolCallDelta(self._calls[index], arguments=arguments))]
        return []

    def _think(self, index: int, text: str) -> list[Delta]:
        thought = self._thought.setdefault(index, {"thinking": "", "signature": ""})
        thought["thinking"] += text
        return [Delta(reasoning=text)] if text else []

    def _end(self, index: int) -> list[Delta]:
        thought = self._thought.pop(index, None)
        if thought is None or not thought["signature"]:
            return []
        return [Delta(opaque={"type": "thinking", **thought})]

    def _usage(self, reported: Any) -> list[Delta]:
        """Return the usage so far. The prompt is counted at the start, the answer at the end."""
        for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"):
            if (number := count(part(reported, name))) is not None:
                self._prompt[name] = number
        written = count(part(reported, "output_tokens"))
        if written is None:
            return []
        usage = Usage(
            prompt_tokens=sum(filter(None, self._prompt.values())) if self._prompt else None,
            completion_tokens=written,
            cached_tokens=self._prompt.get("cache_read_input_tokens"),
            source="backend",
        )
        return [Delta(usage=usage)]
