"""The scripted upstream: a server of OpenAI's chat completions that answers each prompt with its planted case."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from streamval.exposure.planted import TOOL, WRONG_FIELD, Case, all_cases, words
from streamval.wire.parts import text_in
from streamval.wire.sse import frame

MOST_BYTES = 2**22
"""The longest request that is read."""

GOOD = "All the rest of it is as good as anybody could wish."


class Upstream:
    """Answers ``case 12`` with the pieces of the case 12, one each `pause` seconds, and counts those that it sends.

    A request with more than that prompt comes from a repair: it gets a good answer, or a good rest.

    Args:
        pause: Seconds from piece to piece.

    Attributes:
        sent: For each case, how many pieces of the first answer were sent.
        asked: How many requests have come.
    """

    def __init__(self, pause: float) -> None:
        self.sent: dict[int, int] = {}
        self.asked = 0
        self._pause = pause

    @asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[int]:
        """Listen; the value is the port, which 0 leaves to the system."""
        server = await asyncio.start_server(self._serve, host, port, limit=MOST_BYTES)
        async with server:
            yield server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client is gone, or does not speak HTTP
        except (ValueError, LookupError, TypeError) as error:
            writer.write(_plain(400, {"error": {"message": f"not a planted case: {error}"}}))
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        if head.startswith("get "):
            writer.write(_plain(200, {"object": "list", "data": [{"id": "m", "object": "model"}]}))
            return
        found = re.search(r"content-length: *(\d+)", head)
        if found is None or int(found[1]) > MOST_BYTES:
            raise ValueError("the request has no content-length, or is too long")
        body = json.loads(await reader.readexactly(int(found[1])))
        self.asked += 1
        asked = [one for one in body["messages"] if one["role"] not in ("system", "developer")]
        said = [text_in(one.get("content") or "") for one in asked]
        if (found := re.search(r"case (\d+)", " ".join(said))) is None:
            raise ValueError("no prompt of the form `case 12`")
        number = int(found[1])
        case = all_cases()[number]
        is_repair = " ".join(said).strip() != found.group()
        if is_repair:
            case = _repaired(case, goes_on=asked[-1]["role"] == "assistant")
        else:
            self.sent[number] = 0
        if not body.get("stream"):
            self.sent.setdefault(number, 0)
            await asyncio.sleep(self._pause * len(case.pieces))
            self.sent[number] += 0 if is_repair else len(case.pieces)
            writer.write(_plain(200, _whole(case)))
            await writer.drain()
            return
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        )
        began = time.perf_counter()
        for n, delta in enumerate(_deltas(case)):
            if (wait := began + n * self._pause - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            if reader.at_eof() or writer.is_closing():
                return
            writer.write(_chunk(delta))
            await writer.drain()
            if not is_repair and n < len(case.pieces):
                self.sent[number] += 1
        writer.write(_chunk({}, _reason(case)) + b"data: [DONE]\n\n")
        await writer.drain()


def _repaired(case: Case, *, goes_on: bool) -> Case:
    if case.kind == WRONG_FIELD:
        head = () if goes_on else ('{"name"', ": ")
        return Case(case.kind, (*head, '"Ann"'), after=case.after, place="json")
    return Case(case.kind, words(f" {GOOD}" if goes_on else GOOD))


def _deltas(case: Case) -> Iterator[dict[str, Any]]:
    """Return the deltas of an answer: one for each piece, then what its place needs behind them."""
    for n, piece in enumerate(case.pieces):
        if case.place == "reasoning":
            yield {"reasoning_content": piece}
        elif case.place == "tool":
            opened = '{"text": "' if n == 0 else ""
            call: dict[str, Any] = {"index": 0, "function": {"arguments": opened + piece}}
            if n == 0:
                call |= {"id": "call_1", "type": "function"}
                call["function"]["name"] = TOOL["name"]
            yield {"tool_calls": [call]}
        else:
            yield {"content": piece}
    if case.place == "reasoning":
        yield {"content": "It is done."}
    elif case.place == "tool":
        yield {"tool_calls": [{"index": 0, "function": {"arguments": '"}'}}]}


def _whole(case: Case) -> dict[str, Any]:
    text = "".join(case.pieces)
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if case.place == "reasoning":
        message |= {"content": "It is done.", "reasoning_content": text}
    elif case.place == "tool":
        function = {"name": TOOL["name"], "arguments": json.dumps({"text": text})}
        call = {"id": "call_1", "type": "function", "function": function}
        message |= {"content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": _reason(case)}
    usage = {"prompt_tokens": 1, "completion_tokens": len(case.pieces), "total_tokens": 1}
    return {"id": "u", "object": "chat.completion", "created": 0, "model": "m"} | {
        "choices": [choice],
        "usage": usage,
    }


def _reason(case: Case) -> str:
    return "tool_calls" if case.place == "tool" else "stop"


def _chunk(delta: Mapping[str, Any], reason: str | None = None) -> bytes:
    choices: Sequence[Any] = [{"index": 0, "delta": delta, "finish_reason": reason}]
    head = {"id": "u", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    return frame({**head, "choices": choices}).encode()


def _plain(status: int, content: Mapping[str, Any]) -> bytes:
    body = json.dumps(content).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nConnection: close\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
