"""Anthropic's Messages: a request written; the events of a stream read.

Events are read from dictionaries and from the objects of the `anthropic` package.

Source: https://docs.anthropic.com/en/docs/build-with-claude/streaming.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from streamval.errors import StreamBrokenError, UsageError
from streamval.types.deltas import Delta, ToolCallDelta
from streamval.types.messages import Message, refuse_what_is_not_text
from streamval.types.results import Usage
from streamval.wire.parts import count, index_in, part, text_in

EVENTS = frozenset(
    {
        *("message_start", "content_block_start", "content_block_delta", "content_block_stop"),
        *("message_delta", "message_stop", "ping", "error"),
    }
)
"""The types of the events. The helper of the `anthropic` package adds its own, which repeat their content."""


MAX_TOKENS = 4096
"""The limit of an answer, which Anthropic demands, where a client gives none."""

_KNOWN = {
    "max_completion_tokens": "max_tokens",
    "stop": "stop_sequences",
    **{name: name for name in ("max_tokens", "temperature", "top_p", "top_k")},
}


_LEFT_OUT = frozenset({"user", "metadata", "store", "service_tier", "parallel_tool_calls"})
"""Options of chat completions that do not affect an answer without tools."""


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
        self._has_thought = False

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
                between = [Delta(reasoning="\n\n")] if self._has_thought else []
                return between + self._think(index, text_in(part(block, "thinking")))
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
        self._has_thought = self._has_thought or bool(text)
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


# Writing


def check_messages(messages: Sequence[Message], options: Mapping[str, Any], receiver: str) -> None:
    """Refuse what `messages_body` does not translate: all but text.

    Raises:
        UsageError: It names the part, the field or the option.

    Example:
        >>> check_messages([], {"tools": []}, "claude")
        Traceback (most recent call last):
        streamval.errors.UsageError: claude is asked in Anthropic's Messages, and 'tools' has no counterpart there: leave it out
    """
    refuse_what_is_not_text(messages, receiver)
    for name in options:
        if name not in _KNOWN and name not in _LEFT_OUT:
            raise UsageError(
                f"{receiver} is asked in Anthropic's Messages, and {name!r} has no counterpart there: leave it out"
            )


def messages_body(
    messages: Sequence[Message], options: Mapping[str, Any], prefix: str | bytes | None = None
) -> dict[str, Any]:
    """Return messages of text as a request. A `prefix` is the beginning of the answer.

    Example:
        >>> messages_body([Message("system", "Be brief."), Message("user", "Hi")], {"stop": "."})
        {'max_tokens': 4096, 'stop_sequences': ['.'], 'system': 'Be brief.', 'messages': [{'role': 'user', 'content': 'Hi'}]}
    """
    body: dict[str, Any] = {"max_tokens": MAX_TOKENS}
    body |= {_KNOWN[name]: value for name, value in options.items() if name in _KNOWN}
    if isinstance(body.get("stop_sequences"), str):
        body["stop_sequences"] = [body["stop_sequences"]]
    above = [one.content for one in messages if one.role in ("system", "developer")]
    if above:
        body["system"] = "\n\n".join(above)
    turns: list[dict[str, Any]] = [
        {"role": "assistant" if one.role == "assistant" else "user", "content": one.content}
        for one in messages
        if one.role not in ("system", "developer")
    ]
    if prefix:
        turns.append({"role": "assistant", "content": prefix})
    return {**body, "messages": turns}
