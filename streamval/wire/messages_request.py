"""Anthropic's Messages: a request read, and translated for an upstream that speaks chat completions.

Source: https://docs.anthropic.com/en/api/messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from streamval.errors import RequestError
from streamval.wire.completions import CompletionRequest, is_streamed, model_in, object_in
from streamval.wire.messages_writer import SIGNATURE

_RENAMED = {"max_tokens": "max_completion_tokens", "stop_sequences": "stop"}

_OURS = frozenset(
    {
        *("model", "messages", "system", "stream", "tools", "tool_choice", "metadata"),
        *("thinking", "output_config", "output_format", "cache_control"),
        *("container", "mcp_servers", "context_management"),
    }
)
"""The fields that are translated, or that a chat has no place for. All others go to the upstream."""

_HOSTED = ("container", "mcp_servers", "context_management")


def read_request(body: bytes) -> CompletionRequest:
    """Read the body of a request.

    Raises:
        RequestError: If it is not a request for one answer, or has a part that a chat cannot take.

    Example:
        >>> body = b'{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}'
        >>> read_request(body).messages, read_request(body).options
        (({'role': 'user', 'content': 'Hi'},), {'max_completion_tokens': 9})
    """
    given = object_in(body)
    limit = given.get("max_tokens")
    if type(limit) is not int or limit < 1:
        raise RequestError("max_tokens must be a whole number of at least 1", param="max_tokens")
    return read_counted(given, stream=is_streamed(given))


def read_counted(given: Mapping[str, Any], *, stream: bool = False) -> CompletionRequest:
    """Read a request that may have no `max_tokens`, as it asks only how many tokens it has.

    Raises:
        RequestError: As `read_request`.
    """
    if hosted := next((name for name in _HOSTED if given.get(name)), None):
        raise RequestError(f"{hosted} is executed by Anthropic, and not served", param=hosted)
    options = {
        _RENAMED.get(name, name): value
        for name, value in given.items()
        if name not in _OURS and value is not None
    }
    config = given.get("output_config") or {}
    choice = given.get("tool_choice") or {}
    if not isinstance(config, Mapping) or not isinstance(choice, Mapping):
        raise RequestError("output_config and tool_choice must be objects", param="tool_choice")
    metadata = given.get("metadata")
    more = {
        "tools": _tools(given.get("tools")),
        "tool_choice": _choice(choice),
        "parallel_tool_calls": False if choice.get("disable_parallel_tool_use") else None,
        "response_format": _format(config.get("format") or given.get("output_format")),
        "reasoning_effort": config.get("effort"),
        "user": metadata.get("user_id") if isinstance(metadata, Mapping) else None,
    }
    options |= {name: value for name, value in more.items() if value is not None}
    messages = tuple(_messages(given))
    return CompletionRequest(
        "messages", model_in(given), messages, options, stream, wants_usage=True, body=given
    )


def _tools(given: Any) -> list[dict[str, Any]] | None:
    if given is not None and not isinstance(given, list):
        raise RequestError("tools must be a list", param="tools")
    tools = []
    for at, tool in enumerate(given or ()):
        kind = tool.get("type") if isinstance(tool, Mapping) else "nothing"
        if kind not in (None, "custom"):
            raise RequestError(
                f"the tool {kind!r:.60} is executed by Anthropic; only tools with an input_schema are served",
                param=f"tools[{at}]",
            )
        function = {"name": tool.get("name"), "parameters": tool.get("input_schema")}
        if tool.get("description"):
            function["description"] = tool["description"]
        tools.append({"type": "function", "function": function})
    return tools or None


def _choice(given: Mapping[str, Any]) -> Any:
    kind = given.get("type")
    if kind == "tool":
        return {"type": "function", "function": {"name": given.get("name")}}
    if kind not in (None, "auto", "any", "none"):
        raise RequestError(f"tool_choice of type {kind!r:.60} is not served", param="tool_choice")
    return "required" if kind == "any" else kind


def _format(given: Any) -> dict[str, Any] | None:
    if given is None:
        return None
    if not isinstance(given, Mapping) or given.get("type") != "json_schema":
        raise RequestError("a format must be of type json_schema", param="output_config")
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": given.get("schema")}}


# The conversation


def _messages(given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if system := given.get("system"):
        yield {"role": "system", "content": _joined("system", system)}
    said = given.get("messages")
    if not isinstance(said, list) or not said:
        raise RequestError("messages must be a list with at least one message", param="messages")
    for at, message in enumerate(said):
        place = f"messages.{at}"
        role = message.get("role") if isinstance(message, Mapping) else None
        content = message.get("content") if isinstance(message, Mapping) else None
        if role not in ("user", "assistant", "system"):
            raise RequestError("a message needs the role user or assistant", param=place)
        if isinstance(content, str):
            yield {"role": role, "content": content}
        elif isinstance(content, list) and all(isinstance(one, Mapping) for one in content):
            yield from (_answer if role == "assistant" else _question)(place, content, role)
        else:
            raise RequestError("content must be a string or a list of blocks", param=place)


def _answer(place: str, blocks: list[Any], _: str) -> Iterator[dict[str, Any]]:
    """Yield a message of the assistant: its text and calls.

    Thinking that was signed here may be wanted back; other signatures are those of another provider.
    """
    text, thought, calls = "", "", []
    for block in blocks:
        match block.get("type"):
            case "text":
                text += str(block.get("text") or "")
            case "thinking":
                is_ours = block.get("signature") == SIGNATURE
                thought += str(block.get("thinking") or "") if is_ours else ""
            case "redacted_thinking":
                pass
            case "tool_use":
                arguments = json.dumps(block.get("input") or {}, ensure_ascii=False)
                function = {"name": block.get("name"), "arguments": arguments}
                calls.append({"id": block.get("id"), "type": "function", "function": function})
            case kind:
                raise RequestError(f"a block of type {kind!r:.60} is not served", param=place)
    message: dict[str, Any] = {"role": "assistant", "content": text or None if calls else text}
    if calls:
        message["tool_calls"] = calls
        if thought:
            message["reasoning_content"] = thought
    yield message


def _question(place: str, blocks: list[Any], role: str) -> Iterator[dict[str, Any]]:
    """Yield the results of tools, which have to follow their calls, and then the rest as one message."""
    parts = []
    for block in blocks:
        if block.get("type") == "tool_result":
            content = block.get("content")
            result = _joined(place, content) if content else ""
            if block.get("is_error"):
                result = f"Error: {result}"
            yield {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": result}
        else:
            parts.append(_part(place, block))
    if parts:
        texts = [one["text"] for one in parts if one["type"] == "text"]
        yield {"role": role, "content": "\n".join(texts) if len(texts) == len(parts) else parts}


def _part(place: str, block: Mapping[str, Any]) -> dict[str, Any]:
    kind, source = block.get("type"), block.get("source")
    if kind == "text" and isinstance(block.get("text"), str):
        return {"type": "text", "text": block["text"]}
    if isinstance(source, Mapping) and kind in ("image", "document"):
        form = source.get("type")
        if form == "text" and kind == "document":
            return {"type": "text", "text": str(source.get("data"))}
        data = f"data:{source.get('media_type')};base64,{source.get('data')}"
        if kind == "image" and form in ("base64", "url"):
            url = data if form == "base64" else source.get("url")
            return {"type": "image_url", "image_url": {"url": url}}
        if kind == "document" and form == "base64":
            name = str(block.get("title") or "document.pdf")
            return {"type": "file", "file": {"filename": name, "file_data": data}}
    raise RequestError(f"a block of type {kind!r:.60} is not served in this form", param=place)


def _joined(place: str, content: Any) -> str:
    """Return a content as text.

    Raises:
        RequestError: If it has another part.
    """
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(
        isinstance(one, Mapping) and isinstance(one.get("text"), str) for one in content
    ):
        return "\n".join(one["text"] for one in content)
    raise RequestError("only text is served here", param=place)
