"""Anthropic's Messages: the events of an answer, and whole answers, written.

Source: https://docs.anthropic.com/en/docs/build-with-claude/streaming and …/api/messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from streamval.types.messages import ToolCall
from streamval.types.results import Usage
from streamval.wire.answers import Answer, AnswerWriter, Contents, Logprobs, frames

_REASONS = {"length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}

SIGNATURE = "streamval"
"""The signature of thinking that has none of a provider. Clients send back only what is signed, and some providers behind
the gateway want their reasoning back."""

_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


class MessagesWriter(AnswerWriter):
    """Writes an answer as the events of a message.

    Args:
        message_id: The id of the message.
        model: The name of the model.

    Example:
        >>> writer = MessagesWriter("msg_1", "m")
        >>> events = [*writer.begin(), *writer.text("Hi."), *writer.end("stop", Usage(3, 1))]
        >>> [event["type"] for event in events]  # doctest: +NORMALIZE_WHITESPACE
        ['message_start', 'content_block_start', 'content_block_delta', 'content_block_stop',
         'message_delta', 'message_stop']
    """

    ping: ClassVar[str] = frames([{"type": "ping"}])

    def __init__(self, message_id: str, model: str) -> None:
        self._head = {
            "id": message_id,
            "type": "message",
            "role": "assistant",
            "model": model,
            "stop_sequence": None,
        }
        self._index = -1
        self._open: str | None = None  # the type of the block that is open
        self._has_calls = False

    def adopt(self, fields: Mapping[str, Any]) -> None:
        """Take over the upstream's id."""
        self._head |= {"id": fields["id"]} if "id" in fields else {}

    def begin(self) -> Contents:
        """Begin the message. Its usage is known at its end."""
        begun: dict[str, Any] = {"content": [], "stop_reason": None, "usage": usage_object(Usage())}
        return [{"type": "message_start", "message": {**self._head, **begun}}]

    def text(self, text: str, logprobs: Logprobs = ()) -> Contents:
        """Write text."""
        return self._in_block("text", {"text": ""}, {"type": "text_delta", "text": text})

    def reasoning(self, text: str) -> Contents:
        """Write thinking. It is signed with `SIGNATURE` at its end."""
        delta = {"type": "thinking_delta", "thinking": text}
        return self._in_block("thinking", {"thinking": "", "signature": ""}, delta)

    def opaque(self, block: Mapping[str, Any]) -> Contents:
        """Sign the thinking that has been written, or write a block that cannot be read."""
        if block.get("type") == "redacted_thinking":
            begun = {name: value for name, value in block.items() if name != "type"}
            events = [*self._close(), *self._begin("redacted_thinking", begun)]
            return [*events, *self._close()]
        if self._open != "thinking" or not isinstance(block.get("signature"), str):
            return []
        return self._close(block["signature"])

    def tool_calls(self, calls: Sequence[ToolCall]) -> Contents:
        """Write whole calls of tools."""
        events: Contents = []
        for call in calls:
            begun = {"id": call.id, "name": call.name, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": call.raw}
            events += [*self._close(), *self._in_block("tool_use", begun, delta)]
        self._has_calls = self._has_calls or bool(calls)
        return events

    def end(self, reason: str, usage: Usage | None, refusal: str | None = None) -> Contents:
        """End the message; a refusal is a block of text of its own."""
        events: Contents = []
        if refusal is not None:
            events = [*self._close(), *self.text(refusal)]
        delta = {"stop_reason": self._stop_reason(reason), "stop_sequence": None}
        counted = usage_object(usage or Usage())
        return [
            *events,
            *self._close(),
            {"type": "message_delta", "delta": delta, "usage": counted},
            {"type": "message_stop"},
        ]

    def fail(self, error: Mapping[str, Any]) -> Contents:
        """End the message with an error."""
        return [error_event(error, 529 if _is_overloaded(error) else 500)]

    def note(self, content: Mapping[str, Any]) -> Contents:
        """Write what only our own clients read, on a ping."""
        return [{"type": "ping", "x_streamval": content}]

    def whole(self, answer: Answer) -> dict[str, Any]:
        """Return a whole answer."""
        content: Contents = []
        signed = [dict(block) for block in answer.opaque]
        if answer.reasoning and not any(block.get("type") == "thinking" for block in signed):
            content.append(
                {"type": "thinking", "thinking": answer.reasoning, "signature": SIGNATURE}
            )
        content += signed
        content += [{"type": "text", "text": one} for one in (answer.text, answer.refusal) if one]
        content += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
            for call in answer.calls
        ]
        self._has_calls = bool(answer.calls)
        return {
            **self._head,
            "content": content,
            "stop_reason": self._stop_reason(answer.reason),
            "usage": usage_object(answer.usage),
        }

    def _stop_reason(self, reason: str) -> str:
        return _REASONS.get(reason, "tool_use" if self._has_calls else "end_turn")

    def _in_block(self, kind: str, begun: Mapping[str, Any], delta: Mapping[str, Any]) -> Contents:
        events: Contents = []
        if self._open != kind:
            events = [*self._close(), *self._begin(kind, begun)]
        said = {"type": "content_block_delta", "index": self._index, "delta": dict(delta)}
        return [*events, said]

    def _begin(self, kind: str, begun: Mapping[str, Any]) -> Contents:
        self._index, self._open = self._index + 1, kind
        block = {"type": kind, **begun}
        return [{"type": "content_block_start", "index": self._index, "content_block": block}]

    def _close(self, signature: str = SIGNATURE) -> Contents:
        if self._open is None:
            return []
        end: Contents = [{"type": "content_block_stop", "index": self._index}]
        if self._open == "thinking":
            signed = {"type": "signature_delta", "signature": signature}
            end.insert(0, {"type": "content_block_delta", "index": self._index, "delta": signed})
        self._open = None
        return end


def error_event(error: Mapping[str, Any], status: int) -> dict[str, Any]:
    """Return an error in the form of Anthropic's, as an event or a whole answer.

    Example:
        >>> error_event({"error": {"message": "no such model"}}, 404)["error"]
        {'type': 'not_found_error', 'message': 'no such model'}
    """
    said = str(error["error"]["message"])
    return {"type": "error", "error": {"type": _ERRORS.get(status, "api_error"), "message": said}}


def _is_overloaded(error: Mapping[str, Any]) -> bool:
    return "overloaded" in str(error["error"].get("type"))


def usage_object(usage: Usage) -> dict[str, Any]:
    """Return tokens as Messages write them: those of the prompt without the cached ones.

    Example:
        >>> usage_object(Usage(5, 2, cached_tokens=3))["input_tokens"]
        2
    """
    cached = usage.cached_tokens or 0
    return {
        "input_tokens": max((usage.prompt_tokens or 0) - cached, 0),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": usage.completion_tokens,
    }
