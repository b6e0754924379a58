"""A backend that is clever enough for the suites of others: it calls the tool that it is offered, with what was asked."""

from __future__ import annotations

import json
import re

import streamval as sv
from streamval.structured.json_schema.schema import schema_of

USAGE = sv.types.Usage(11, 7, 0, 0, "backend", 2, 3)


def sample(schema, said, root=None):
    """A value that meets a JSON Schema: numbers and quoted words are taken from what was said."""
    root = root or schema
    if "$ref" in schema:
        place = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            place = place[part]
        return sample(place, said, root)
    if "enum" in schema or "const" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    for name in ("anyOf", "oneOf", "allOf"):
        if name in schema:
            return sample(schema[name][0], said, root)
    return typed(schema, said, root)


def typed(schema, said, root):
    """A value of a schema's type."""
    match schema.get("type"):
        case "object" | None:
            properties = schema.get("properties", {})
            wanted = [*schema.get("required", ()), *properties]
            return {name: sample(properties[name], said, root) for name in dict.fromkeys(wanted)}
        case "array":
            return [sample(schema.get("items", {}), said, root)]
        case "integer" | "number":
            return int((re.findall(r"\d+", said) or ["1"])[0])
        case "boolean" | "null":
            return True if schema["type"] == "boolean" else None
    quoted = re.findall(r"[\"“'「]([^\"”'」]+)[\"”'」]", said)
    return quoted[0] if quoted else "cats"


def answer(request):
    """The deltas for a request."""
    asked = next((m for m in reversed(request.messages) if m.role == "user"), request.messages[-1])
    last = request.messages[-1]
    choice = request.tool_choice
    yield sv.Delta(reasoning="Let me see. ")
    if request.format is not None:
        yield json.dumps(sample(schema_of(request.format).json_schema, asked.content))
    elif request.tools and choice != "none" and (last.role != "tool" or choice is not None):
        named = choice["function"]["name"] if isinstance(choice, dict) else None
        functions = [tool["function"] for tool in request.tools]
        function = next((one for one in functions if one["name"] == named), functions[0])
        arguments = json.dumps(
            sample(function.get("parameters", {}), asked.content), ensure_ascii=False
        )
        name = function["name"]
        yield sv.Delta(tool_call=sv.types.ToolCallDelta(0, "call_1", name))
        for at in range(0, len(arguments), 5):
            piece = arguments[at : at + 5]
            yield sv.Delta(tool_call=sv.types.ToolCallDelta(0, arguments=piece))
    else:
        stop = request.options.get("stop") or ["\0"]
        text = "Hello there. I am fine, thank you. This is a longer answer."
        text = text[: min((at for one in stop if (at := text.find(one)) >= 0), default=None)]
        yield from (word + " " for word in text.split(" "))
    yield sv.Delta(usage=USAGE, finish_reason="tool_calls" if request.tools else "stop")


def brain():
    """The backend itself."""
    return sv.IterableBackend(answer, model="brain")
