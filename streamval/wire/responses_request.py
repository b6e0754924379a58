"""OpenAI's Responses: a request read, and translated for an upstream that speaks chat completions.

Source: https://platform.openai.com/docs/api-reference/responses/create.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamval.errors import RequestError
from streamval.wire.completions import CompletionRequest, is_streamed, model_in, object_in
from streamval.wire.responses_writer import DEFAULTS

_REFUSED = {
    "conversation": "no conversations are kept here; send the whole conversation as input",
    "prompt": "no prompts are kept here; send instructions and input",
    "background": "answers are not written in the background",
}

_RENAMED = {"max_output_tokens": "max_completion_tokens"}

_OURS = frozenset(
    {
        *("model", "input", "instructions", "stream", "stream_options", "tools", "tool_choice"),
        *("text", "reasoning", "include", "store", "truncation", "max_tool_calls", *_REFUSED),
        "previous_response_id",
    }
)
"""The fields that are translated, or that a chat has no place for. All others go to the upstream."""


def read_request(body: bytes) -> CompletionRequest:
    """Read the body of a request.

    Raises:
        RequestError: If it is not a request for one answer, or has a part that a chat cannot take.

    Example:
        >>> read_request(b'{"model": "m", "input": "Hi", "instructions": "Be brief."}').messages
        ({'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Hi'})
    """
    given = object_in(body)
    for name, why in _REFUSED.items():
        if given.get(name):
            raise RequestError(why, param=name)
    options = {
        _RENAMED.get(name, name): value
        for name, value in given.items()
        if name not in _OURS and value is not None
    }
    if options.get("top_logprobs"):
        options["logprobs"] = True
    effort = _mapping(given, "reasoning").get("effort")
    text = _mapping(given, "text")
    more = {
        "tools": _tools(given.get("tools")),
        "tool_choice": _choice(given.get("tool_choice")),
        "response_format": _format(text.get("format")),
        "reasoning_effort": effort,
        "verbosity": text.get("verbosity"),
    }
    options |= {name: value for name, value in more.items() if value is not None}
    return CompletionRequest(
        "responses",
        model_in(given),
        tuple(_messages(given)),
        options,
        is_streamed(given),
        wants_usage=True,
        echo={name: given[name] for name in DEFAULTS if given.get(name) is not None},
        body=given,
    )


def _mapping(given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = given.get(name) or {}
    if not isinstance(value, Mapping):
        raise RequestError(f"{name} must be an object", param=name)
    return value


# Options


def _tools(given: Any) -> list[dict[str, Any]] | None:
    if given is not None and not isinstance(given, list):
        raise RequestError("tools must be a list of functions", param="tools")
    tools = []
    for at, tool in enumerate(given or ()):
        kind = tool.get("type") if isinstance(tool, Mapping) else None
        if kind != "function":
            raise RequestError(
                f"the tool {kind!r:.60} is executed by OpenAI; only functions are served",
                param=f"tools[{at}]",
            )
        function = {name: value for name, value in tool.items() if name != "type"}
        if function.get("strict") is None:
            function.pop("strict", None)
        tools.append({"type": "function", "function": function})
    return tools or None


def _choice(given: Any) -> Any:
    if isinstance(given, Mapping):
        if given.get("type") != "function":
            raise RequestError(
                f"tool_choice of type {given.get('type')!r:.60} is not served", param="tool_choice"
            )
        return {"type": "function", "function": {"name": given.get("name")}}
    return given


def _format(given: Any) -> dict[str, Any] | None:
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise RequestError("text.format must be an object", param="text.format")
    if given.get("type") != "json_schema":
        return None if given.get("type") == "text" else dict(given)
    schema = {name: value for name, value in given.items() if name != "type" and value is not None}
    return {"type": "json_schema", "json_schema": schema}


# The conversation


def _messages(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if instructions := given.get("instructions"):
        if not isinstance(instructions, str):
            raise RequestError("instructions must be a string", param="instructions")
        messages.append({"role": "system", "content": instructions})
    said = given.get("input")
    if isinstance(said, str):
        return [*messages, {"role": "user", "content": said}]
    if not isinstance(said, list) or not said:
        raise RequestError("input must be a string or a list of items", param="input")
    thought = ""
    for at, item in enumerate(said):
        kind = item.get("type", "message") if isinstance(item, Mapping) else None
        if kind == "reasoning":  # encrypted reasoning belongs to another provider
            thought = "" if item.get("encrypted_content") else _thought(item)
        elif kind == "function_call":
            _add_call(messages, at, item, thought)
            thought = ""
        else:
            messages.append(_turn(at, kind, item))
    return messages


def _turn(at: int, kind: str | None, item: Mapping[str, Any]) -> dict[str, Any]:
    if kind == "message":
        return _message(at, item)
    if kind == "function_call_output":
        output = item.get("output")
        content = _content(at, output) if isinstance(output, list) else output
        return {"role": "tool", "tool_call_id": item.get("call_id"), "content": content}
    raise _wrong(at, f"an item of type {kind!r:.60} is not served")


def _message(at: int, item: Mapping[str, Any]) -> dict[str, Any]:
    role, content = item.get("role"), item.get("content")
    if role not in ("user", "assistant", "system", "developer"):
        raise _wrong(at, "a message needs the role user, assistant, system or developer")
    return {"role": role, "content": content if isinstance(content, str) else _content(at, content)}


def _content(at: int, content: Any) -> Any:
    if not isinstance(content, list):
        raise _wrong(at, "a content must be a text, or a list of parts")
    parts = [_part(at, one) for one in content]
    texts = [one["text"] for one in parts if one["type"] == "text"]
    return "".join(texts) if len(texts) == len(parts) else parts


def _part(at: int, one: Any) -> dict[str, Any]:
    kind = one.get("type") if isinstance(one, Mapping) else None
    match kind:
        case "input_text" | "output_text" | "text" if isinstance(one.get("text"), str):
            return {"type": "text", "text": one["text"]}
        case "refusal" if isinstance(one.get("refusal"), str):
            return {"type": "text", "text": one["refusal"]}
        case "input_image" if one.get("image_url"):
            image = {name: one[name] for name in ("detail",) if one.get(name)}
            return {"type": "image_url", "image_url": {"url": one["image_url"], **image}}
        case "input_file" if one.get("file_data") or one.get("file_id"):
            named = ("file_data", "file_id", "filename")
            return {"type": "file", "file": {name: one[name] for name in named if one.get(name)}}
        case "input_audio":
            return dict(one)
    raise _wrong(at, f"a part of type {kind!r:.60} is not served")


def _add_call(
    messages: list[dict[str, Any]], at: int, item: Mapping[str, Any], thought: str
) -> None:
    """Add a call to the assistant's message before it, or in a message of its own."""
    function = {"name": item.get("name"), "arguments": item.get("arguments")}
    call = {"id": item.get("call_id"), "type": "function", "function": function}
    if not all(isinstance(one, str) for one in (call["id"], *function.values())):
        raise _wrong(at, "a function_call needs call_id, name and arguments")
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": None})
    messages[-1].setdefault("tool_calls", []).append(call)
    if thought:
        messages[-1]["reasoning_content"] = thought


def _thought(item: Mapping[str, Any]) -> str:
    """Return reasoning in the clear, which a provider of chat completions may want back."""
    parts = item.get("content") or item.get("summary") or ()
    return "\n\n".join(one["text"] for one in parts if isinstance(one.get("text"), str))


def _wrong(at: int, why: str) -> RequestError:
    return RequestError(why, param=f"input[{at}]")
