"""The brain of `tests.support.brain` behind a real endpoint of OpenAI's shape, streamed and not."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

import streamval as sv
from streamval.serve.config_file import parse_configuration
from streamval.serve.gateway import Gateway
from streamval.structured.json_schema.schema import JSONSchema
from streamval.types.messages import ToolCall
from streamval.wire import openai_chat, openai_text
from streamval.wire.answers import Answer, frames
from streamval.wire.sse import DONE
from tests.support.brain import answer

FILE = """
upstreams:
  main: {{model: openai/brain, api_base: "{url}"}}
models:
  brain: &brain
    upstream: main
    requirements: [no_secrets, {{no_loop: {{on: [text, reasoning]}}}}, {{forbidden_words: [forbidden]}}]
    reasoning: deliver
  # The names in the tests of the `openai` package.
  gpt-5.4: *brain
  gpt-5.1: *brain
  gpt-3.5-turbo-instruct: *brain
server: {{port: 0}}
"""


def generated(asked):
    """What the brain says to a request: text, reasoning, calls, usage and finish reason."""
    options = dict(asked.options)
    wanted = (options.get("response_format") or {}).get("json_schema") or {}
    schema = wanted.get("schema")
    made = sv.GenerationRequest(
        asked.turns,
        tools=tuple(options.get("tools") or ()),
        tool_choice=options.get("tool_choice"),
        format=None if schema is None else JSONSchema(schema),
        options={"stop": options.get("stop")} if options.get("stop") else {},
    )
    if isinstance(made.options.get("stop"), str):
        made.options["stop"] = [made.options["stop"]]
    return [one if isinstance(one, sv.Delta) else sv.Delta(one) for one in answer(made)]


async def completions(request):
    is_chat = request.url.path.endswith("/chat/completions")
    read = openai_chat.read_request if is_chat else openai_text.read_request
    asked = read(await request.body())
    deltas = generated(asked)
    calls, usage, reason = {}, None, "stop"
    for delta in deltas:
        if delta.tool_call is not None:
            name, arguments = calls.get(delta.tool_call.index, ("", ""))
            calls[delta.tool_call.index] = (
                name + (delta.tool_call.name or ""),
                arguments + delta.tool_call.arguments,
            )
        usage, reason = delta.usage or usage, delta.finish_reason or reason
    whole = [
        ToolCall(index, f"call_{index}", name, json.loads(raw), raw)
        for index, (name, raw) in calls.items()
    ]
    reason = "tool_calls" if whole else "stop"
    make = openai_chat.ChatWriter if is_chat else openai_text.TextWriter
    writer = make("brain", "brain", 1)
    if not asked.stream:
        text = "".join(delta.text for delta in deltas)
        thought = "".join(delta.reasoning for delta in deltas)
        return JSONResponse(writer.whole(Answer(text, reason, usage, thought, calls=whole)))

    async def body():
        for delta in deltas:
            contents = writer.reasoning(delta.reasoning) if delta.reasoning else []
            contents += writer.text(delta.text) if delta.text else []
            yield frames(contents)
            await asyncio.sleep(0)
        last = writer.end(reason, usage if asked.wants_usage else None)
        yield frames(writer.tool_calls(whole) + last) + DONE

    return StreamingResponse(body(), media_type="text/event-stream")


@contextmanager
def serving(app):
    """Serve an application in a thread; yields its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        pass
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def bare_and_judged():
    """The addresses of the brain itself and of the gateway before it, each with its `/v1`."""
    paths = ("/v1/chat/completions", "/v1/completions")
    app = Starlette(routes=[Route(path, completions, methods=["POST"]) for path in paths])
    with serving(app) as bare:
        configuration = parse_configuration(FILE.format(url=f"{bare}/v1"), "brain.yaml", {})
        with serving(Gateway(configuration).app) as judged:
            yield f"{bare}/v1", f"{judged}/v1"
