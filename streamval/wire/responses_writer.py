"""OpenAI's Responses: the events of an answer, written.

Each delta belongs to a part, each part to an item, each item to the response, and each of them is begun and ended by
events of its own. Source: https://platform.openai.com/docs/api-reference/responses-streaming.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from streamval.types.messages import ToolCall
from streamval.types.results import Usage
from streamval.wire.answers import Answer, AnswerWriter, Contents, Logprobs

_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc"}

DEFAULTS: Mapping[str, Any] = {
    "object": "response",
    "background": False,
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_diagnostics": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "auto",
    "store": False,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "usage": None,
    "user": None,
}
"""The fields of a response that a request leaves open, as OpenAI fills them."""


def new_id(kind: str) -> str:
    """Return an id for an item of a kind.

    Example:
        >>> new_id("reasoning")[:3]
        'rs_'
    """
    return f"{_PREFIXES[kind]}_{uuid4().hex}"


class ResponsesWriter(AnswerWriter):
    """Writes an answer as the events of a response. Each method returns the events to send, in order.

    Args:
        response_id: The id of the response.
        model: The name of the model.
        echo: Fields of the response that repeat the request: `temperature`, `tools`, …
        id_of: Returns an id for an item of a kind: `"message"`, `"reasoning"` or `"function_call"`.

    Example:
        >>> writer = ResponsesWriter("resp_1", "m")
        >>> events = [*writer.begin(), *writer.text("Hi."), *writer.end("stop", Usage(3, 1))]
        >>> [event["type"].removeprefix("response.") for event in events[2:8]]  # doctest: +NORMALIZE_WHITESPACE
        ['output_item.added', 'content_part.added', 'output_text.delta', 'output_text.done',
         'content_part.done', 'output_item.done']
        >>> events[-1]["response"]["output"][0]["content"][0]["text"]
        'Hi.'
    """

    def __init__(
        self,
        response_id: str,
        model: str,
        echo: Mapping[str, Any] | None = None,
        id_of: Callable[[str], str] = new_id,
    ) -> None:
        self._response = {
            "id": response_id,
            "created_at": int(time.time()),
            "model": model,
            **DEFAULTS,
            **(echo or {}),
            "output": [],
        }
        self._id_of = id_of
        self._items: Contents = []
        self._number = 0
        self._part: dict[str, Any] | None = None  # of the last item, if it is not done

    @property
    def id(self) -> str:
        """The id of the response."""
        return str(self._response["id"])

    def adopt(self, fields: Mapping[str, Any]) -> None:
        """Take over the upstream's id and marks."""
        names = {"created": "created_at"}
        self._response |= {names.get(name, name): value for name, value in fields.items()}

    def begin(self) -> Contents:
        """Begin the response."""
        return [
            self._event(f"response.{kind}", response=self._snapshot("in_progress"))
            for kind in ("created", "in_progress")
        ]

    def text(self, text: str, logprobs: Logprobs = ()) -> Contents:
        """Write text."""
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        events = self._open("message", part)
        self._grow("text", text)
        known = [
            {"token": one.token, "logprob": one.logprob, "top_logprobs": list(one.others)}
            for one in logprobs
        ]
        said = self._in_part("output_text.delta", delta=text, logprobs=known)
        return [*events, said]

    def refusal(self, text: str) -> Contents:
        """Write a refusal."""
        events = self._open("message", {"type": "refusal", "refusal": ""})
        self._grow("refusal", text)
        return [*events, self._in_part("refusal.delta", delta=text)]

    def reasoning(self, text: str) -> Contents:
        """Write reasoning, as a summary: the form that clients show."""
        events = self._open("reasoning", {"type": "summary_text", "text": ""})
        self._grow("text", text)
        return [*events, self._in_part("reasoning_summary_text.delta", delta=text)]

    def opaque(self, block: Mapping[str, Any]) -> Contents:
        """Write an item of reasoning as it came, in place of one that is open with the same text."""
        events: Contents = []
        if self._items and self._items[-1]["type"] == "reasoning" and self._part is not None:
            events = self._close_part()
        else:
            events = [*self._close(), self._add("reasoning", summary=[])]
        self._items[-1] = {**self._items[-1], **block}
        return [*events, self._done(self._items[-1])]

    def tool_calls(self, calls: Sequence[ToolCall]) -> Contents:
        """Write whole calls of tools."""
        events: Contents = []
        for call in calls:
            begun = {"call_id": call.id, "name": call.name, "arguments": ""}
            events += [*self._close(), self._add("function_call", **begun)]
            item = self._items[-1]
            item["arguments"] = call.raw
            for name, field in (("delta", "delta"), ("done", "arguments")):
                more = {"name": call.name} if name == "done" else {}
                kind = f"function_call_arguments.{name}"
                events.append(self._in_item(kind, **{field: call.raw}, **more))
            events.append(self._done(item))
        return events

    def end(
        self,
        reason: str,
        usage: Usage | None,
        refusal: str | None = None,
        *,
        output: Sequence[Mapping[str, Any]] | None = None,
    ) -> Contents:
        """End the response. The reasons `"length"` and `"content_filter"` leave it incomplete.

        `output` has the items of the response, in place of those that were written.
        """
        events = [] if refusal is None else self.refusal(refusal)
        events += self._close()
        if output is not None:
            self._items = [dict(item) for item in output]
        why = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(reason)
        status = "completed" if why is None else "incomplete"
        more: dict[str, Any] = {"usage": None if usage is None else usage_object(usage)}
        more["incomplete_details"] = why and {"reason": why}
        if why is None:
            more["completed_at"] = int(time.time())
        whole = self._snapshot(status, **more)
        return [*events, self._event(f"response.{status}", response=whole)]

    def fail(self, error: Mapping[str, Any]) -> Contents:
        """End the response with an error."""
        said = error["error"]
        known = {"code": "server_error", "message": said["message"]}
        whole = self._snapshot("failed", error=known)
        return [*self._close(), self._event("response.failed", response=whole)]

    def note(self, content: Mapping[str, Any]) -> Contents:
        """Write what only our own clients read, as an event of its own."""
        return [self._event("x_streamval", x_streamval=content)]

    def whole(self, answer: Answer) -> dict[str, Any]:
        """Return a whole answer: the response of the last event."""
        if answer.reasoning:
            self.reasoning(answer.reasoning)
        for block in answer.opaque:
            self.opaque(block)
        if answer.text or not (answer.calls or answer.refusal):
            self.text(answer.text, answer.logprobs)
        self.tool_calls(answer.calls)
        last = self.end(answer.reason, answer.usage, answer.refusal)[-1]
        response: dict[str, Any] = last["response"]
        return response

    # Parts

    def _open(self, kind: str, part: dict[str, Any]) -> Contents:
        """Begin a part, and its item, unless it is open."""
        if self._part is not None and self._part["type"] == part["type"]:
            return []
        events: Contents = []
        if self._part is None or self._items[-1]["type"] != kind:
            role = {"role": "assistant"} if kind == "message" else {}
            events = [*self._close(), self._add(kind, **role, **{_list_of(kind): []})]
        else:
            events = self._close_part()
        self._part = part
        self._items[-1][_list_of(kind)].append(part)
        return [*events, self._in_part(f"{_part_of(kind)}.added", part=dict(part))]

    def _grow(self, field: str, text: str) -> None:
        assert self._part is not None
        self._part[field] += text

    def _close_part(self) -> Contents:
        part = self._part
        if part is None:
            return []
        kind = self._items[-1]["type"]
        name, field = {
            "output_text": ("output_text", "text"),
            "refusal": ("refusal", "refusal"),
            "summary_text": ("reasoning_summary_text", "text"),
        }[part["type"]]
        logprobs: dict[str, Any] = {"logprobs": []} if name == "output_text" else {}
        events = [
            self._in_part(f"{name}.done", **{field: part[field]}, **logprobs),
            self._in_part(f"{_part_of(kind)}.done", part=dict(part)),
        ]
        self._part = None
        return events

    # Items

    def _add(self, kind: str, **fields: Any) -> dict[str, Any]:
        item = {"id": self._id_of(kind), "type": kind, "status": "in_progress", **fields}
        self._items.append(item)
        return self._at_item("output_item.added")

    def _close(self) -> Contents:
        """End the part that is open, and its item."""
        if self._part is None:
            return []
        return [*self._close_part(), self._done(self._items[-1])]

    def _done(self, item: dict[str, Any]) -> dict[str, Any]:
        item["status"] = "completed"
        return self._at_item("output_item.done")

    # Events

    def _at_item(self, kind: str) -> dict[str, Any]:
        item = dict(self._items[-1])
        for name in ("content", "summary"):
            if isinstance(item.get(name), list):
                item[name] = [dict(part) for part in item[name]]
        return self._event(f"response.{kind}", output_index=len(self._items) - 1, item=item)

    def _in_item(self, kind: str, **fields: Any) -> dict[str, Any]:
        where = {"item_id": self._items[-1]["id"], "output_index": len(self._items) - 1}
        return self._event(f"response.{kind}", **where, **fields)

    def _in_part(self, kind: str, **fields: Any) -> dict[str, Any]:
        item = self._items[-1]
        is_summary = item["type"] == "reasoning"
        index = len(item[_list_of(item["type"])]) - 1
        place = {"summary_index" if is_summary else "content_index": index}
        return self._in_item(kind, **place, **fields)

    def _event(self, kind: str, **fields: Any) -> dict[str, Any]:
        self._number += 1
        return {"type": kind, "sequence_number": self._number - 1, **fields}

    def _snapshot(self, status: str, **fields: Any) -> dict[str, Any]:
        return {**self._response, "status": status, "output": list(self._items), **fields}


def _list_of(kind: str) -> str:
    return "summary" if kind == "reasoning" else "content"


def _part_of(kind: str) -> str:
    return "reasoning_summary_part" if kind == "reasoning" else "content_part"


def usage_object(usage: Usage) -> dict[str, Any]:
    """Return tokens as Responses write them.

    Example:
        >>> usage_object(Usage(5, 2))["total_tokens"]
        7
    """
    read, written = usage.prompt_tokens or 0, usage.completion_tokens
    return {
        "input_tokens": read,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens or 0,
            "cache_write_tokens": 0,
        },
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": read + written,
    }
