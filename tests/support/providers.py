"""Four providers of models that think and call tools, scripted, on a real socket.

`deepseek` and `vllm` speak chat completions, with the reasoning in `reasoning_content` and `reasoning`; `openai` speaks
Responses, with encrypted reasoning; `anthropic` speaks Messages, with signed thinking between its blocks. Each answers
a question in three turns with two calls of tools, and refuses a history without what it has to get back: DeepSeek its
reasoning, OpenAI the item of reasoning before a call, Anthropic the signed block before a call.
"""

from __future__ import annotations

import itertools
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.support.upstream import upstream

QUESTION = "How warm is it in Rome, in Fahrenheit?"
ANSWER = "It is 64 °F in Rome."
SECRET = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"
REJECTED = "An earlier answer was rejected"

TURNS = [
    [("think", "I need the weather in Rome first."), ("call", "weather", '{"city": "Rome"}')],
    [
        ("think", "It is 18 °C there."),
        ("say", "I convert it. "),
        ("call", "fahrenheit", '{"celsius": 18}'),
    ],
    [("think", "That is 64 °F."), ("say", ANSWER)],
]
"""What a model writes: thinking, text, calls of tools."""

FAULTS = {
    "secret in the reasoning": [("think", f"The key is {SECRET}. "), ("say", "It is warm. " * 400)],
    "loop in the reasoning": [("think", "I ask for the weather. " * 400)],
    "secret in the text": [("say", f"The key is {SECRET}. " + "It is warm. " * 400)],
    "secret in the arguments": [
        ("call", "weather", json.dumps({"city": SECRET, "why": "warm " * 600}))
    ],
    "wrong argument": [("call", "weather", json.dumps({"city": 18, "why": "warm " * 600}))],
    "unknown tool": [("call", "sunshine", json.dumps({"city": "warm " * 600}))],
}
"""First turns that a rule has to stop."""


@dataclass
class Provider:
    """A provider in the manner of `name`.

    Attributes:
        fault: What it writes in the first turn, until a repair asks it again.
        size: Characters of a delta.
        url: Its address, with `/v1`.
        served: The requests.
        refused: Why it refused a request.
    """

    name: str
    fault: list | None = None
    size: int = 7
    url: str = ""
    served: list = field(default_factory=list)
    refused: list = field(default_factory=list)

    def answer(self, body, _):
        """The frames for a request, or a refusal."""
        try:
            turn = HISTORY[self.name](body)
        except ValueError as problem:
            self.refused.append(str(problem))
            error = {"error": {"type": "invalid_request_error", "message": str(problem)}}
            return 400, "Content-Type: application/json", json.dumps(error).encode()
        asked_again = REJECTED in json.dumps(body, ensure_ascii=False)
        if self.fault is not None and turn == 0 and not asked_again:  # it never comes to its end
            return [*[*SPEAK[self.name](self.fault, turn, self.size)][:-4], "STALL"]
        return [*SPEAK[self.name](TURNS[turn], turn, self.size), "END"]


@asynccontextmanager
async def provider(name, **options):
    """A running provider."""
    one = Provider(name, **options)
    async with upstream(one.answer) as server:
        one.url, one.served = server.url, server.requests
        yield one


def pieces(text, size):
    return [text[at : at + size] for at in range(0, len(text), size)]


def data(content, event=None):
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {json.dumps(content)}\n\n".encode()


# Chat completions


def chat(reasoning_field):
    def speak(said, turn, size):
        def frame(delta, reason=None):
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            head = {"id": f"c{turn}", "object": "chat.completion.chunk", "created": 1, "model": "m"}
            return data({**head, "choices": [choice]})

        reason, calls = "stop", 0
        yield frame({"role": "assistant", "content": ""})
        for kind, text, *rest in said:
            if kind == "call":
                reason, index = "tool_calls", calls
                calls += 1
                begun = {"name": text, "arguments": ""}
                call = {"index": index, "id": f"c{turn}", "type": "function", "function": begun}
                yield frame({"tool_calls": [call]})
                for piece in pieces(rest[0], size):
                    yield frame(
                        {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
                    )
            else:
                name = reasoning_field if kind == "think" else "content"
                for piece in pieces(text, size):
                    yield frame({name: piece})
        yield frame({}, reason)
        usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
        yield data(
            {
                "id": "c",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": "m",
                "choices": [],
                "usage": usage,
            }
        )
        yield b"data: [DONE]\n\n"

    return speak


def chat_history(reasoning_field, *, demanded):
    def turn_of(body):
        messages = body["messages"]
        results = [one for one in messages if one["role"] == "tool"]
        for at, one in enumerate(message for message in messages if message.get("tool_calls")):
            wanted = TURNS[at][0][1]
            if demanded and one.get(reasoning_field) != wanted:
                raise ValueError(
                    f"The {reasoning_field} of the call must be passed back to the API"
                )
        return len(results)

    return turn_of


# Responses


def responses(said, turn, size):
    number = itertools.count()
    items = []

    def event(kind, **more):
        return data(
            {"type": f"response.{kind}", "sequence_number": next(number), **more},
            f"response.{kind}",
        )

    def whole(status):
        usage = {
            "input_tokens": 9,
            "output_tokens": 9,
            "total_tokens": 18,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 4},
        }
        return {
            "id": f"resp_{turn}",
            "object": "response",
            "created_at": 1,
            "model": "m",
            "status": status,
            "output": items,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": usage,
            "prompt_cache_diagnostics": None,  # Pydantic AI reads it
        }

    yield event("created", response=whole("in_progress"))
    for at, (kind, text, *rest) in enumerate(said):
        where = {"output_index": at, "item_id": f"{kind}_{turn}_{at}"}
        head = {"id": where["item_id"], "status": "in_progress"}
        if kind == "think":
            part = {"type": "summary_text", "text": text}
            item = {
                **head,
                "type": "reasoning",
                "summary": [part],
                "encrypted_content": sealed(text),
                "status": "completed",
            }
            yield event(
                "output_item.added",
                output_index=at,
                item={**head, "type": "reasoning", "summary": []},
            )
            yield event(
                "reasoning_summary_part.added", **where, summary_index=0, part={**part, "text": ""}
            )
            for piece in pieces(text, size):
                yield event("reasoning_summary_text.delta", **where, summary_index=0, delta=piece)
            yield event("reasoning_summary_text.done", **where, summary_index=0, text=text)
            yield event("reasoning_summary_part.done", **where, summary_index=0, part=part)
        elif kind == "say":
            part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
            item = {
                **head,
                "type": "message",
                "role": "assistant",
                "content": [part],
                "status": "completed",
            }
            yield event(
                "output_item.added",
                output_index=at,
                item={**item, "content": [], "status": "in_progress"},
            )
            yield event("content_part.added", **where, content_index=0, part={**part, "text": ""})
            for piece in pieces(text, size):
                yield event("output_text.delta", **where, content_index=0, delta=piece, logprobs=[])
            yield event("output_text.done", **where, content_index=0, text=text, logprobs=[])
            yield event("content_part.done", **where, content_index=0, part=part)
        else:
            item = {
                **head,
                "type": "function_call",
                "call_id": f"c{turn}",
                "name": text,
                "arguments": rest[0],
                "status": "completed",
            }
            yield event(
                "output_item.added",
                output_index=at,
                item={**item, "arguments": "", "status": "in_progress"},
            )
            for piece in pieces(rest[0], size):
                yield event("function_call_arguments.delta", **where, delta=piece)
            yield event("function_call_arguments.done", **where, arguments=rest[0], name=text)
        items.append(item)
        yield event("output_item.done", output_index=at, item=item)
    yield event("completed", response=whole("completed"))


def sealed(text):
    return f"sealed:{len(text)}:{text[::-1]}"


def responses_history(body):
    given = body["input"] if isinstance(body["input"], list) else []
    last = None
    for item in given:
        if item.get("type") == "function_call":
            turn = int(item["call_id"][1:])
            text = TURNS[turn][0][1]
            if last is None or last.get("encrypted_content") != sealed(text):
                raise ValueError(
                    f"Item 'c{turn}' was provided without its required 'reasoning' item"
                )
        elif item.get("type") == "reasoning":
            last = item
    return sum(item.get("type") == "function_call_output" for item in given)


# Messages


def messages(said, turn, size):
    def event(kind, **more):
        return data({"type": kind, **more}, kind)

    usage = {"input_tokens": 9, "output_tokens": 1}
    begun = {
        "id": f"msg_{turn}",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    yield event("message_start", message=begun)
    yield event("ping")
    reason = "end_turn"
    for at, (kind, text, *rest) in enumerate(said):
        if kind == "think":
            block = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(text, size)]
            deltas.append({"type": "signature_delta", "signature": sealed(text)})
        elif kind == "say":
            block = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces(text, size)]
        else:
            reason = "tool_use"
            block = {"type": "tool_use", "id": f"c{turn}", "name": text, "input": {}}
            deltas = [
                {"type": "input_json_delta", "partial_json": piece}
                for piece in pieces(rest[0], size)
            ]
        yield event("content_block_start", index=at, content_block=block)
        for delta in deltas:
            yield event("content_block_delta", index=at, delta=delta)
        yield event("content_block_stop", index=at)
    yield event(
        "message_delta",
        delta={"stop_reason": reason, "stop_sequence": None},
        usage={"output_tokens": 9},
    )
    yield event("message_stop")


def messages_history(body):
    results = 0
    for message in body["messages"]:
        blocks = message["content"] if isinstance(message["content"], list) else []
        thought = None
        for block in blocks:
            if block["type"] == "thinking":
                thought = block
                if block["signature"] != sealed(block["thinking"]):
                    raise ValueError("Invalid `signature` in `thinking` block")
            elif block["type"] == "tool_use" and thought is None:
                raise ValueError(
                    "Expected `thinking`, but found `tool_use`: the blocks must go back as they came"
                )
            results += block["type"] == "tool_result"
    return results


SPEAK = {
    "deepseek": chat("reasoning_content"),
    "vllm": chat("reasoning"),
    "openai": responses,
    "anthropic": messages,
}
HISTORY = {
    "deepseek": chat_history("reasoning_content", demanded=True),
    "vllm": chat_history("reasoning", demanded=False),
    "openai": responses_history,
    "anthropic": messages_history,
}
