"""The client: asks an endpoint for a planted case in a protocol, and notes what it sees."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import httpx

from streamval.errors import StreamBrokenError
from streamval.exposure.planted import SCHEMA, TOOL, all_cases
from streamval.types.deltas import Delta
from streamval.wire.answers import finish_reason
from streamval.wire.parts import text_in
from streamval.wire.sse import FrameReader
from streamval.wire.streams import StreamReader

Spoken: TypeAlias = Literal["chat", "responses", "messages"]

PATHS: dict[Spoken, str] = {
    "chat": "chat/completions",
    "responses": "responses",
    "messages": "messages",
}

GOOD_ENDS = frozenset({"stop", "tool_calls", "done"})
"""Ends as after an answer that is whole; ``done`` is a stream that ends without a finish reason."""


@dataclass(slots=True)
class Seen:
    """What a client has seen of a case.

    Attributes:
        text: The text, the reasoning and the arguments of tools, in the order in which they came.
        first: Seconds until the first of it; 0 if nothing came.
        seconds: Seconds until the end.
        end: The finish reason as chat completions call it; ``done`` without one; ``error``, also by a status;
            ``torn`` if the connection broke.
    """

    text: str = ""
    first: float = 0.0
    seconds: float = 0.0
    end: str = "torn"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint to measure.

    Attributes:
        url: Its base URL, which ends with ``/v1`` for most.
        model: The model for text.
        typed: The model that is asked for JSON by a schema.
        key: The key, if it wants one.
    """

    url: str
    model: str
    typed: str
    key: str = "none"


def body_for(endpoint: Endpoint, spoken: Spoken, number: int, *, streamed: bool) -> dict[str, Any]:
    """Return the request for a case."""
    case, prompt = all_cases()[number], f"case {number}"
    body: dict[str, Any] = {"model": endpoint.typed if case.place == "json" else endpoint.model}
    body["stream"] = streamed
    if spoken == "responses":
        body["input"] = prompt
    else:
        body["messages"] = [{"role": "user", "content": prompt}]
    if spoken == "messages":
        body["max_tokens"] = 1000
    if case.place == "tool":
        body["tools"] = [_tool(spoken)]
    if case.place == "json":
        body |= _format(spoken)
    return body


def _tool(spoken: Spoken) -> dict[str, Any]:
    if spoken == "chat":
        return {"type": "function", "function": TOOL}
    if spoken == "responses":
        return {"type": "function", **TOOL}
    name, description = TOOL["name"], TOOL["description"]
    return {"name": name, "description": description, "input_schema": TOOL["parameters"]}


def _format(spoken: Spoken) -> dict[str, Any]:
    named = {"name": "city", "schema": SCHEMA, "strict": True}
    if spoken == "chat":
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    if spoken == "responses":
        return {"text": {"format": {"type": "json_schema", **named}}}
    return {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}


async def ask(
    client: httpx.AsyncClient, endpoint: Endpoint, spoken: Spoken, number: int, *, streamed: bool
) -> Seen:
    """Ask for a case.

    Raises:
        StreamBrokenError: If the endpoint cannot be reached at all.
    """
    seen, began = Seen(), time.perf_counter()
    headers = {"authorization": f"Bearer {endpoint.key}", "x-api-key": endpoint.key}
    headers["anthropic-version"] = "2023-06-01"
    url = f"{endpoint.url.rstrip('/')}/{PATHS[spoken]}"
    body = body_for(endpoint, spoken, number, streamed=streamed)
    try:
        async with client.stream("POST", url, json=body, headers=headers) as response:
            if response.status_code >= 400:
                await response.aread()
                seen.end = f"error {response.status_code}"
            elif streamed:
                await _read_stream(response, seen, began)
            else:
                _read_whole(json.loads(await response.aread()), seen)
                seen.first = time.perf_counter() - began
    except httpx.ConnectError as error:
        raise StreamBrokenError(f"{url} cannot be reached: {error}") from None
    except (httpx.HTTPError, StreamBrokenError, ValueError, LookupError, TypeError, AttributeError):
        seen.end = "torn"  # also of an answer that is none of the protocol
    seen.seconds = time.perf_counter() - began
    return seen


async def _read_stream(response: httpx.Response, seen: Seen, began: float) -> None:
    frames, reader, whole = FrameReader(), StreamReader(), False
    reason: str | None = None
    async for piece in response.aiter_bytes():
        for data in frames.feed(piece):
            if data.strip() == b"[DONE]":
                whole = True
                continue
            content = json.loads(data)
            kind = content.get("type")
            if content.get("error") or kind in ("error", "response.failed"):
                seen.end = "error"
                return
            whole = whole or kind in ("message_stop", "response.completed", "response.incomplete")
            for delta in reader.read(content):
                if isinstance(delta, Delta):
                    _note(delta, seen, began)
                    reason = delta.finish_reason or reason
    if reason is not None:
        seen.end = finish_reason(reason)
    elif whole:
        seen.end = "done"


def _note(delta: Delta, seen: Seen, began: float) -> None:
    call = delta.tool_call
    text = delta.reasoning + delta.text + ("" if call is None else call.arguments)
    if text and not seen.first:
        seen.first = time.perf_counter() - began
    seen.text += text


def _read_whole(content: dict[str, Any], seen: Seen) -> None:
    """Read an answer that was not streamed: of which protocol, its fields say."""
    reason: Any
    if "choices" in content:
        choice = content["choices"][0]
        message, reason = choice["message"], choice.get("finish_reason")
        parts = [message.get("reasoning_content"), text_in(message.get("content") or "")]
        calls = message.get("tool_calls") or ()
        parts += [call["function"]["arguments"] for call in calls]
    elif "output" in content:
        parts = list(_texts_of_output(content["output"]))
        why = content.get("incomplete_details") or {}
        reason = why.get("reason") or ("stop" if content.get("status") == "completed" else "error")
    else:
        parts = [
            json.dumps(block["input"], ensure_ascii=False)
            if block["type"] == "tool_use"
            else block.get("text") or block.get("thinking")
            for block in content["content"]
        ]
        reason = content.get("stop_reason")
    seen.text = "\n".join(part for part in parts if part)
    seen.end = "error" if reason == "error" else finish_reason(reason)


def _texts_of_output(items: Any) -> Iterator[str]:
    for item in items:
        if item["type"] == "function_call":
            yield item["arguments"]
        for part in (*(item.get("summary") or ()), *(item.get("content") or ())):
            yield part.get("text") or ""
