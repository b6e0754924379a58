"""An upstream of OpenAI's shape that says what it is told to, on a real socket, and sees its clients go."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class Served:
    """One request, and what became of it."""

    body: dict
    headers: dict
    sent: int = 0
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    gone_at: float = 0.0


class Upstream:
    """Answers by a script: a function of the body and of how many requests came before.

    It gives a list: a string is a delta of text, a dict a whole frame, bytes go out as they are, a number is
    slept, an event is waited for, ``"RESET"``, ``"STALL"`` and ``"END"`` break the connection, wait for the client to go, and close
    without ``[DONE]``. In place of a list it may give ``(status, headers, body)``.
    """

    def __init__(self, script):
        self.script = script
        self.requests = []
        self.handling = set()

    async def handle(self, reader, writer):
        self.handling.add(asyncio.current_task())
        try:
            await self.serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            self.handling.discard(asyncio.current_task())

    async def serve(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        headers = dict(line.lower().split(": ", 1) for line in head.strip().split("\r\n")[1:])
        body = json.loads(await reader.readexactly(int(headers["content-length"])))
        served = Served(body, headers)
        answer = self.script(body, len(self.requests))
        self.requests.append(served)
        if isinstance(answer, tuple):
            status, more, said = answer
            writer.write(
                f"HTTP/1.1 {status} X\r\nContent-Length: {len(said)}\r\n{more}\r\n\r\n".encode()
                + said
            )
            await writer.drain()
            return
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        )
        watching = asyncio.create_task(self.watch(reader, served))
        try:
            await self.say(writer, served, answer)
        except ConnectionError:  # found by writing, before it is found by reading
            served.gone_at = served.gone_at or time.perf_counter()
            served.gone.set()
        finally:
            watching.cancel()

    async def watch(self, reader, served):
        try:
            while await reader.read(1024):
                pass
        except ConnectionError:
            pass
        served.gone_at = time.perf_counter()
        served.gone.set()

    async def say(self, writer, served, answer):
        ended = False
        for item in answer:
            if item == "RESET":
                writer.transport.abort()
                return
            if item == "STALL":
                await served.gone.wait()
                return
            if item == "END":
                return
            if isinstance(item, (int, float)):
                await asyncio.sleep(item)
                continue
            if isinstance(item, asyncio.Event):
                await item.wait()
                continue
            said = frame({"content": item}) if isinstance(item, str) else item
            if isinstance(said, dict):
                ended = ended or any(c.get("finish_reason") for c in said.get("choices", ()))
                said = b"data: " + json.dumps(said).encode() + b"\n\n"
            writer.write(said)
            await writer.drain()
            served.sent += 1
            if served.gone.is_set():
                return
        if not ended:
            writer.write(b"data: " + json.dumps(frame({}, "stop")).encode() + b"\n\n")
        usage = {"prompt_tokens": 5, "completion_tokens": served.sent}
        writer.write(b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n")
        writer.write(b"data: [DONE]\n\n")
        await writer.drain()


def frame(delta, reason=None, **more):
    """A frame of a chat completion."""
    return {"id": "u", "choices": [{"index": 0, "delta": delta, "finish_reason": reason, **more}]}


def words(text):
    """A text as deltas, a word each."""
    pieces = text.split(" ")
    return [piece + " " for piece in pieces[:-1]] + pieces[-1:]


@asynccontextmanager
async def upstream(script):
    """A running upstream; `url` is its address."""
    server = Upstream(script if callable(script) else lambda *_: script)
    listening = await asyncio.start_server(server.handle, "127.0.0.1", 0, limit=2**22)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    try:
        yield server
    finally:
        listening.close()
        if server.handling:
            await asyncio.wait(server.handling, timeout=5)
