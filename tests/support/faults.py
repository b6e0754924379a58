"""A server that breaks its answers on command, in four protocols, and goes on with them when it is asked to.

It writes one answer of reasoning, text and calls. A request that ends with the beginning of it, as an assistant's
message or in a prompt, or that asks in words to go on from there, gets the rest.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

from tests.support.providers import SPEAK
from tests.support.upstream import upstream

ASKED = "Go on from its last words"

ANSWERS = {
    "text": [("say", "One is fine. Two is good.\n\nThree is here, and it ends.\n")],
    "reasoning": [
        ("think", "Let me think. I know it now."),
        ("say", "One is fine. Two is good. Three ends."),
    ],
    "tools": [
        ("say", "I ask for both. "),
        ("call", "weather", '{"city": "Rome"}'),
        ("call", "weather", '{"city": "Bonn"}'),
    ],
    "JSON": [("say", '{"name": "Ann Lee", "tags": ["one two", "three"], "n": 12}')],
}
"""An answer of every kind."""

KINDS = ("cut", "reset", "half")
"""Faults at any frame: the connection is closed without an end, reset, closed within a frame."""

STATUSES = (429, 500, 502, 503, 529)


def text_of(said):
    return "".join(part[1] for part in said if part[0] == "say")


def frames_of(protocol, said, size=6):
    """The frames of an answer, as bytes."""
    if protocol == "text":
        pieces = [{"choices": [{"index": 0, "text": one}]} for one in cut(text_of(said), size)]
        pieces.append({"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]})
        return [b"data: %s\n\n" % json.dumps(one).encode() for one in pieces] + [
            b"data: [DONE]\n\n"
        ]
    speaker = {"chat": "deepseek", "responses": "openai", "messages": "anthropic"}[protocol]
    return list(SPEAK[speaker](said, 0, size))


def cut(text, size):
    """A text in pieces that end behind a space, as models write it."""
    pieces, piece = [], ""
    for letter in text:
        piece += letter
        if letter.isspace() or len(piece) >= size * 3:
            pieces.append(piece)
            piece = ""
    return [*pieces, piece] if piece else pieces


def kept_in(body, answer):
    """The part of an answer's text that a request goes on from."""
    if "prompt" in body:
        ends = [at for at in range(len(answer) + 1) if body["prompt"].endswith(answer[:at])]
        return answer[: max(ends)]
    turns = body.get("messages") or body["input"]
    turns = [{"role": "user", "content": turns}] if isinstance(turns, str) else turns
    last = turns[-1]
    if last.get("role") == "assistant":
        return words_of(last)
    return words_of(turns[-2]) if ASKED in words_of(last) else ""


def words_of(turn):
    content = turn.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def rest_of(said, kept):
    """The parts of an answer behind the text that was kept."""
    left, parts = len(kept), []
    for part in said:
        if part[0] == "call" or (part[0] == "think" and not kept):
            parts.append(part)
        elif part[0] == "say" and left < len(part[1]):
            parts.append(("say", part[1][left:]))
        left -= min(left, len(part[1])) if part[0] == "say" else 0
    return parts or [("say", "")]


class FaultyServer:
    """Breaks its first answers.

    Args:
        protocol: `"chat"`, `"text"`, `"responses"` or `"messages"`.
        said: The answer.
        faults: For each of the first requests, a kind and a frame; or a status and a `Retry-After`.

    Attributes:
        tokens: The frames that it has sent, of all answers.
        requests: The bodies.
        url: Its address, with `/v1`.
    """

    def __init__(self, protocol, said, faults=(), size=6):
        self.protocol, self.said, self.faults, self.size = protocol, said, list(faults), size
        self.requests, self.tokens, self.url = [], 0, ""
        self.repeats = False
        self.whole = frames_of(protocol, said, size)

    def break_next(self, *faults):
        """Break the next answers."""
        self.faults = [(None, 0)] * len(self.requests) + list(faults)

    def script(self, body, number):
        self.requests.append(body)
        answer = text_of(self.said)
        kept = kept_in(body, answer)
        assert answer.startswith(kept), (kept, answer)
        left = rest_of(self.said, kept)
        if self.repeats and kept:  # as chats do: its last words again, before it goes on
            left[0] = (
                ("say", " ".join(kept.split()[-4:]) + left[0][1])
                if left[0][0] == "say"
                else left[0]
            )
        frames = frames_of(self.protocol, left, self.size)
        kind, at = self.faults[number] if number < len(self.faults) else (None, 0)
        if isinstance(kind, int):
            error = json.dumps({"error": {"message": "try later", "type": "server_error"}}).encode()
            return kind, f"Content-Type: application/json\r\nRetry-After: {at}", error
        if kind is None:
            self.tokens += len(frames)
            return [*frames, "END"]
        at = min(at, len(frames) - 1)
        self.tokens += at
        sent = frames[:at]
        if kind == "half":
            sent.append(frames[at][: len(frames[at]) // 2])
        if kind == "error":
            wrong = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
            sent.append(b"event: error\ndata: %s\n\n" % json.dumps(wrong).encode())
        return [*sent, {"reset": "RESET", "stall": "STALL"}.get(kind, "END")]


@asynccontextmanager
async def faulty(protocol, said, faults=(), size=6):
    """A running server."""
    server = FaultyServer(protocol, said, faults, size)
    async with upstream(server.script) as listening:
        server.url = listening.url
        yield server
