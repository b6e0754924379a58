"""OpenAI's Responses: a request written, the events of a stream read.

Events are read from dictionaries and from the objects of the `openai` package. Source:
https://platform.openai.com/docs/api-reference/responses and …/responses-streaming.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from streamval.errors import StreamBrokenError, UsageError
from streamval.types.deltas import Delta, ToolCallDelta
from streamval.types.messages import Message, texts_in
from streamval.types.results import Usage
from streamval.wire.parts import as_mapping, count, index_in, part, text_in

# Reading


class ResponsesReader:
    """Takes the events of a stream in order, returns their deltas.

    Items of reasoning with encrypted content become opaque blocks, as the API wants them back. Items of tools that
    OpenAI executes are left out.

    Attributes:
        ended: Whether the stream has come to its end.

    Example:
        >>> ResponsesReader().read({"type": "response.output_text.delta", "delta": "Hi"})
        [Delta('Hi')]
    """

    def __init__(self) -> None:
        self.ended = False
        self._calls: dict[int, int] = {}  # by the index of the item
        self._written: dict[int, int] = {}  # characters of arguments so far
        self._has_thought = False
        self._texts: set[int] = set()  # indices of items whose text was streamed
        self._thoughts: set[int] = set()  # and whose reasoning was

    def read(self, event: Any) -> list[Delta]:
        """Read an event.

        Raises:
            StreamBrokenError: If the server reports an error, or its content is not text.
        """
        kind = part(event, "type")
        name = str(getattr(kind, "value", kind))  # LiteLLM's types are of an enumeration
        index, written = index_in(part(event, "output_index")), part(event, "delta")
        deltas: list[Delta] = []
        match name.removeprefix("response."):
            case "output_text.delta":
                deltas = [Delta(text_in(written))]
                self._texts.add(index)
            case "refusal.delta":
                deltas = [Delta(refusal=text_in(written))]
            case "reasoning_summary_text.delta" | "reasoning_text.delta":
                self._has_thought = True
                self._thoughts.add(index)
                deltas = [Delta(reasoning=text_in(written))]
            case "reasoning_summary_part.added" if self._has_thought:
                deltas = [Delta(reasoning="\n\n")]
            case "output_text.done":
                deltas = self._rest_of_text(index, part(event, "text"))
            case "function_call_arguments.delta":
                deltas = self._arguments(index, written)
            case "function_call_arguments.done":
                deltas = self._rest(index, part(event, "arguments"))
            case other:
                deltas = self._around(other, index, event)
        return deltas

    def _around(self, name: str, index: int, event: Any) -> list[Delta]:
        """Read the beginning or end of an item or of the whole response."""
        match name:
            case "output_item.added":
                return self._begin(index, part(event, "item"))
            case "output_item.done":
                return self._end(index, part(event, "item"))
            case "completed" | "incomplete":
                return self._complete(part(event, "response"))
            case "failed":
                raise _failed(part(part(event, "response"), "error"))
            case "error":
                raise _failed(part(event, "error") or event)
        return []

    def _begin(self, index: int, item: Any) -> list[Delta]:
        if part(item, "type") != "function_call":
            return []
        number = self._calls[index] = len(self._calls)
        key, name = part(item, "call_id"), text_in(part(item, "name"))
        call = ToolCallDelta(number, key if isinstance(key, str) else None, name)
        return [Delta(tool_call=call), *self._rest(index, part(item, "arguments"))]

    def _arguments(self, index: int, written: Any) -> list[Delta]:
        arguments = text_in(written)
        if index not in self._calls or not arguments:
            return []
        self._written[index] = self._written.get(index, 0) + len(arguments)
        return [Delta(tool_call=ToolCallDelta(self._calls[index], arguments=arguments))]

    def _rest(self, index: int, written: Any) -> list[Delta]:
        """Return the arguments that have not been streamed: all of them, of some servers."""
        return self._arguments(index, text_in(written)[self._written.get(index, 0) :])

    def _end(self, index: int, item: Any) -> list[Delta]:
        if part(item, "type") == "function_call":
            begun = [] if index in self._calls else self._begin(index, item)
            return begun + self._rest(index, part(item, "arguments"))
        if part(item, "type") == "message":
            said = [part(one, "text") for one in part(item, "content") or ()]
            return self._rest_of_text(index, "".join(map(text_in, said)))
        if part(item, "type") == "reasoning":
            return self._end_of_thought(index, as_mapping(item))
        return []

    def _rest_of_text(self, index: int, text: Any) -> list[Delta]:
        """Return the text of an item of which nothing was streamed."""
        if index in self._texts or not text:
            return []
        self._texts.add(index)
        return [Delta(text_in(text))]

    def _end_of_thought(self, index: int, item: dict[str, Any]) -> list[Delta]:
        deltas: list[Delta] = []
        if index not in self._thoughts:
            deltas = [Delta(reasoning=text) for text in texts_in(item)]
        return [*deltas, Delta(opaque=item)] if item.get("encrypted_content") else deltas

    def _complete(self, response: Any) -> list[Delta]:
        self.ended = True
        why = part(part(response, "incomplete_details"), "reason")
        reason = {"max_output_tokens": "length"}.get(why, why) if isinstance(why, str) else None
        reason = reason or ("tool_calls" if self._calls else "stop")
        return [Delta(usage=_usage(part(response, "usage")), finish_reason=reason)]


def _failed(error: Any) -> StreamBrokenError:
    said = part(error, "message") or part(error, "code") or "it gives no reason"
    return StreamBrokenError(f"the server reports an error: {str(said)[:300]}")


def _usage(reported: Any) -> Usage | None:
    written = count(part(reported, "output_tokens"))
    if written is None:
        return None
    return Usage(
        prompt_tokens=count(part(reported, "input_tokens")),
        completion_tokens=written,
        reasoning_tokens=count(part(part(reported, "output_tokens_details"), "reasoning_tokens")),
        cached_tokens=count(part(part(reported, "input_tokens_details"), "cached_tokens")),
        source="backend",
    )


# Writing

_SENT = frozenset(
    {
        "tool_calls",
        "tool_call_id",
        "reasoning_items",
        "reasoning_places",
        "reasoning_content",
        "refusal",
    }
)
"""The fields of a message that have a place in a request, or are of no use in one."""


def input_items(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages as the input of a request.

    Reasoning goes back only as the items that the server sent.

    Raises:
        UsageError: If a message has a part or a field that has no place there.

    Example:
        >>> input_items([Message("tool", "18 °C", fields={"tool_call_id": "c1"})])
        [{'type': 'function_call_output', 'call_id': 'c1', 'output': '18 °C'}]
    """
    return [item for at, message in enumerate(messages) for item in _items(at, message)]


def _items(at: int, message: Message) -> Iterator[dict[str, Any]]:
    fields = message.fields
    if unknown := next((n for n, value in fields.items() if value and n not in _SENT), None):
        raise UsageError(f"message {at} has {unknown!r}, which Responses cannot take; leave it out")
    content: Any = message.content
    if message.parts:
        content = [_part(at, one, message.role) for one in message.parts]
    if message.role in ("tool", "function"):
        call = fields.get("tool_call_id")
        yield {"type": "function_call_output", "call_id": call, "output": content}
        return
    # An item of reasoning stands before the item that the model wrote with it.
    thoughts = fields.get("reasoning_items") or ()
    places = fields.get("reasoning_places")
    if not isinstance(places, list) or [type(one) for one in places] != [int] * len(thoughts):
        places = [0] * len(thoughts)  # none are known
    written = [(place, dict(item)) for place, item in zip(places, thoughts, strict=True)]
    if content:
        written.append((0, {"role": message.role, "content": content}))
    if refusal := fields.get("refusal"):
        said = [{"type": "refusal", "refusal": refusal}]
        written.append((0, {"role": "assistant", "content": said}))
    written += [
        (number, _call_item(call)) for number, call in enumerate(fields.get("tool_calls") or (), 1)
    ]
    yield from (item for _, item in sorted(written, key=itemgetter(0)))


def _call_item(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {
        "type": "function_call",
        "call_id": call["id"],
        "name": function["name"],
        "arguments": function["arguments"],
    }


def _part(at: int, one: Mapping[str, Any], role: str) -> dict[str, Any]:
    match one.get("type"):
        case "text":
            kind = "output_text" if role == "assistant" else "input_text"
            return {"type": kind, "text": one.get("text")}
        case "refusal":
            return dict(one)
        case "image_url":
            image = one.get("image_url")
            given = dict(image) if isinstance(image, Mapping) else {"url": image}
            detail = {"detail": given["detail"]} if given.get("detail") else {}
            return {"type": "input_image", "image_url": given.get("url"), **detail}
        case "file":
            return {"type": "input_file", **(one.get("file") or {})}
        case str(kind) if kind.startswith(("input_", "output_text")):
            return dict(one)
    raise UsageError(
        f"message {at} has a part of type {one.get('type')!r:.60}, which Responses cannot take; leave it out"
    )


def responses_body(messages: Sequence[Message], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request of chat completions as Responses take it: nothing is stored, all reasoning comes back.

    Example:
        >>> responses_body([Message("user", "Hi")], {"max_tokens": 9})["input"]
        [{'role': 'user', 'content': 'Hi'}]
    """
    left = dict(options)
    tools, choice, wanted = (
        left.pop(name, None) for name in ("tools", "tool_choice", "response_format")
    )
    body: dict[str, Any] = {"store": False, "include": ["reasoning.encrypted_content"]}
    body |= {**options_for_responses(left), "input": input_items(messages)}
    if tools:
        body["tools"] = [function_tool(tool) for tool in tools]
    if isinstance(choice, Mapping):
        choice = {"type": "function", "name": choice.get("function", choice).get("name")}
    if choice is not None:
        body["tool_choice"] = choice
    if isinstance(wanted, Mapping) and wanted.get("type") != "text":
        schema = wanted.get("json_schema") or {}
        body["text"] = {**(body.get("text") or {}), "format": {"type": wanted["type"], **schema}}
    return body


def function_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool of OpenAI's chat completions as Responses write it.

    Example:
        >>> function_tool({"type": "function", "function": {"name": "now", "parameters": {}}})
        {'type': 'function', 'strict': False, 'name': 'now', 'parameters': {}}
    """
    return {"type": "function", "strict": False, **tool["function"]}


_RENAMED = {"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"}


def options_for_responses(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of chat completions by the names of Responses.

    Example:
        >>> options_for_responses({"max_tokens": 9, "reasoning_effort": "low", "temperature": 1})
        {'max_output_tokens': 9, 'temperature': 1, 'reasoning': {'effort': 'low'}}
    """
    renamed = {_RENAMED.get(name, name): value for name, value in options.items()}
    if (effort := renamed.pop("reasoning_effort", None)) is not None:
        renamed["reasoning"] = {**(renamed.get("reasoning") or {}), "effort": effort}
    return renamed
