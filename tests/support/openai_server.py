"""A real server on loopback that speaks OpenAI's streaming protocol, and sees clients go.

The model name says how it behaves: `fine`, `endless` (until the client goes), `bad-key`, `unknown`,
`busy` (429), `dies` (the connection breaks in mid-stream), `stalls`; `no-finish` and `length`,
`content_filter`, `refuses` (how the stream ends); with status 200, `html`, `json-error`, `nothing`,
`only-done`, `error-frame` (an error in mid-stream); `echo-headers` (400, and says what it got).
"""

from __future__ import annotations

import asyncio
import codecs
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from streamval.errors import (
    AuthenticationError,
    RateLimitError,
    StreamBrokenError,
    UnknownModelError,
)

FAILURES = [
    ("bad-key", AuthenticationError, "pass api_key="),
    ("unknown", UnknownModelError, "check the name"),
    ("busy", RateLimitError, "fewer requests"),
    ("dies", StreamBrokenError, "broke off in mid-stream"),
    ("error-frame", StreamBrokenError, "out of memory"),
    ("no-finish", StreamBrokenError, "without a finish reason"),
    ("only-done", StreamBrokenError, "without a finish reason"),
    ("nothing", StreamBrokenError, "without a finish reason"),
    ("html", StreamBrokenError, "answered with text/html, which is not a stream"),
    ("json-error", StreamBrokenError, "answered with application/json, which is not a stream"),
]
"""Models that fail, each with the error that a backend raises and words of its message."""

WORDS = [
    "One",
    "is",
    "here.",
    "Two",
    "is",
    "here!",
    "Three",
    "is",
    "here.",
    "Four",
    "is",
    "here.",
    "",
]
ERRORS = {
    "bad-key": (401, "Incorrect API key provided", "invalid_api_key"),
    "unknown": (404, "The model `unknown` does not exist", "model_not_found"),
    "busy": (429, "Rate limit reached", "rate_limit_exceeded"),
}
NO_STREAMS = {
    "html": (b"text/html", b"<html><body>Please log in</body></html>"),
    "json-error": (b"application/json", b'{"error": {"message": "model is loading", "code": 5}}'),
    "nothing": (b"text/event-stream", b""),
    "only-done": (b"text/event-stream", b"data: [DONE]\n\n"),
}


@dataclass
class Served:
    """What the server saw of one request."""

    path: str
    body: dict
    headers: dict
    sent: int = 0
    sent_after_disconnect: int = 0
    finished: bool = False
    disconnected: asyncio.Event = field(default_factory=asyncio.Event)


class OpenAIServer:
    def __init__(self) -> None:
        self.requests: list[Served] = []
        self.url = ""
        self.handling: set[asyncio.Task] = set()

    async def handle(self, reader, writer) -> None:
        self.handling.add(asyncio.current_task())
        try:
            while await self._serve_one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            self.handling.discard(asyncio.current_task())

    async def _serve_one(self, reader, writer) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        request_line, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value for name, value in (ln.split(": ", 1) for ln in lines)}
        body = json.loads(await reader.readexactly(int(headers.get("content-length", 0))) or b"{}")
        served = Served(request_line.split()[1], body, headers)
        self.requests.append(served)
        model = body["model"]
        if model in ERRORS:
            status, message, code = ERRORS[model]
            self._respond(writer, status, {"error": {"message": message, "code": code}})
            await writer.drain()
            return False
        if model == "echo-headers":
            self._respond(writer, 400, {"error": {"message": f"what is {headers}?", "code": "bad"}})
            await writer.drain()
            return False
        if model in NO_STREAMS:
            content_type, content = NO_STREAMS[model]
            self._send(writer, b"200 OK", content_type, content)
            await writer.drain()
            return False
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        gone = asyncio.create_task(self._watch(reader, served))
        try:
            await self._stream(writer, served, model)
        finally:
            gone.cancel()
        return False

    async def _watch(self, reader, served) -> None:
        while await reader.read(1024):
            pass
        served.disconnected.set()

    async def _stream(self, writer, served, model) -> None:
        if model == "byte-order-mark":
            self._chunk(writer, codecs.BOM_UTF8)
        words = WORDS if model != "endless" else WORDS * 1000
        for position, word in enumerate(words):
            if model == "dies" and position == 4:
                writer.transport.abort()
                return
            if model == "stalls" and position == 2:
                await served.disconnected.wait()
                return
            if model == "error-frame" and position == 2:
                self._chunk(
                    writer, b'data: {"error": {"message": "out of memory", "code": 500}}\n\n'
                )
                break
            if model == "refuses":
                self._event(writer, served, {"refusal": word + " "})
            else:
                self._event(writer, served, {"text": word + " "})
            try:
                await writer.drain()
            except ConnectionError:
                served.disconnected.set()
            served.sent += 1
            await asyncio.sleep(0.005)
            if served.disconnected.is_set():
                return
        if model not in ("no-finish", "error-frame"):
            reason = model if model in ("length", "content_filter") else "stop"
            self._event(writer, served, {"text": "", "finish_reason": reason})
        count = len(words)
        usage = {"prompt_tokens": 7, "completion_tokens": count, "total_tokens": 7 + count}
        self._event(writer, served, {"usage": usage})
        self._chunk(writer, b"data: [DONE]\n\n")
        self._chunk(writer, b"")
        await writer.drain()
        served.finished = True

    def _event(self, writer, served, delta) -> None:
        chat = "chat" in served.path
        event = {
            "id": "1",
            "object": "chat.completion.chunk" if chat else "text_completion",
            "created": 1,
            "model": served.body["model"],
            "choices": [],
        }
        if "usage" in delta:
            event["usage"] = delta["usage"]
        else:
            choice = {"index": 0, "finish_reason": delta.get("finish_reason")}
            if "refusal" in delta:
                choice["delta"] = {"refusal": delta["refusal"]}
            else:
                choice |= {"delta": {"content": delta["text"]}} if chat else {"text": delta["text"]}
            event["choices"] = [choice]
        self._chunk(writer, b"data: " + json.dumps(event).encode() + b"\n\n")

    @staticmethod
    def _chunk(writer, data: bytes) -> None:
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _respond(self, writer, status: int, payload: dict) -> None:
        body = json.dumps(payload).encode()
        self._send(writer, b"%d X" % status, b"application/json", body)

    @staticmethod
    def _send(writer, status: bytes, content_type: bytes, body: bytes) -> None:
        writer.write(
            b"HTTP/1.1 %b\r\nContent-Type: %b\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b"
            % (status, content_type, len(body), body)
        )


@asynccontextmanager
async def openai_server():
    """A running server."""
    server = OpenAIServer()
    listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    try:
        yield server
    finally:
        listening.close()
        if server.handling:
            await asyncio.wait(server.handling, timeout=5)
