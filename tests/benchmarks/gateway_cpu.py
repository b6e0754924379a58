"""The gateway's CPU a frame and a request, beside a bare proxy: part of `make bench-gateway`.

The bare proxy reads frames and writes them on, with the same libraries: starlette, uvicorn, aiohttp. The upstream and the
client are in this process; only the CPU time of the proxy's process counts. Answers of 20 and of 120 frames tell
the cost of a frame from that of a request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil

SHORT, LONG = 20, 120
ANSWERS = 150
AT_ONCE = 10
SCHEMA = {
    "type": "object",
    "properties": {"words": {"type": "array", "items": {"type": "string"}}},
    "required": ["words"],
}
PATHS = {
    "chat": "/v1/chat/completions",
    "text": "/v1/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}
FILE = """
upstreams: {{main: {{model: openai/m, api_base: "http://127.0.0.1:{upstream}/v1"}}}}
models:
  careful:
    upstream: main
    requirements: [no_repetition, {{forbidden_words: [forbidden, acme]}}, {{word_limit: {{at_most: 5000}}}}]
  through: {{upstream: main, chunking: null}}
server: {{port: {port}, max_runs: 600}}
"""


def bare(port, upstream):
    """The bare proxy."""
    import aiohttp
    import uvicorn
    from starlette.applications import Starlette
    from starlette.responses import StreamingResponse
    from starlette.routing import Route

    session = None

    async def proxy(request):
        nonlocal session
        session = session or aiohttp.ClientSession()
        body = await request.body()

        async def frames():
            url = f"http://127.0.0.1:{upstream}{request.url.path}"
            async with session.post(url, data=body) as response:
                async for line in response.content:
                    if line.startswith(b"data: {"):
                        frame = json.loads(line[6:])
                        yield b"data: " + json.dumps(frame).encode() + b"\n\n"
            yield b"data: [DONE]\n\n"

        return StreamingResponse(frames(), media_type="text/event-stream")

    app = Starlette(routes=[Route(path, proxy, methods=["POST"]) for path in PATHS.values()])
    uvicorn.run(app, port=port, log_level="error", access_log=False)


def pieces(count, *, typed):
    """The deltas of an answer: sentences of ten words, or JSON."""
    if typed:
        inside = [f'"word{n}", ' for n in range(count - 2)]
        return ['{"words": [', *inside, '"last"]}']
    return [f"Word{n // 10} ends. " if n % 10 == 9 else f"word{n} " for n in range(count)]


async def upstream():
    """A server that says as many frames as it is asked for (`max_tokens`), one in each turn of the loop."""

    def frame(delta, reason=None):
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return b"data: " + json.dumps({"id": "u", "choices": [choice]}).encode() + b"\n\n"

    async def serve(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        body = json.loads(await reader.readexactly(length))
        count = (
            body.get("max_completion_tokens") or body.get("max_tokens") or body["max_output_tokens"]
        )
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        )
        for piece in pieces(count, typed="response_format" in body):
            writer.write(frame({"content": piece}))
            await writer.drain()
            await asyncio.sleep(0.001)
        writer.write(frame({}, "stop") + b"data: [DONE]\n\n")
        await writer.drain()
        writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0, backlog=2048)


async def ask(port, protocol, model, count, *, typed):
    body = {"model": model, "stream": True, "max_tokens": count}
    body["messages"] = [{"role": "user", "content": "Say it."}]
    if protocol == "text":
        body["prompt"] = "Say it."
        del body["messages"]
    elif protocol == "responses":
        body = {"model": model, "stream": True, "max_output_tokens": count, "input": "Say it."}
    if typed:
        named = {"name": "w", "schema": SCHEMA}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    raw = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    writer.write(
        f"POST {PATHS[protocol]} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(raw)}\r\n\r\n".encode()
        + raw
    )
    answer = await reader.read()
    writer.close()
    assert b" 200 " in answer[:40], answer[:400]
    assert b"word1" in answer


async def seconds(process, port, count, answers, **how):
    """CPU seconds of the process for so many answers."""
    together = asyncio.Semaphore(AT_ONCE)

    async def one():
        async with together:
            await ask(port, count=count, **how)

    before = sum(process.cpu_times()[:2])
    await asyncio.gather(*(one() for _ in range(answers)))
    return sum(process.cpu_times()[:2]) - before


async def measured(process, port, **how):
    """Microseconds a frame, and milliseconds a request: the best of three."""
    await seconds(process, port, SHORT, 20, **how)
    pairs = []
    for _ in range(3):
        long = await seconds(process, port, LONG, ANSWERS, **how) / ANSWERS
        short = await seconds(process, port, SHORT, ANSWERS, **how) / ANSWERS
        pairs.append((long, short))
    long, short = min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
    frame = (long - short) / (LONG - SHORT)
    return frame * 1e6, (short - SHORT * frame) * 1e3


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


async def started(*command):
    process = subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return process, psutil.Process(process.pid)


async def there(port):
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return


async def rows():
    """Rows of a name, microseconds a frame and milliseconds a request."""
    server = await upstream()
    up = server.sockets[0].getsockname()[1]
    port, ours = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "gateway.yaml")
        path.write_text(FILE.format(upstream=up, port=ours))
        processes = [
            await started(__file__, "--bare", str(port), "--upstream", str(up)),
            await started("-m", "streamval.cli", "serve", str(path)),
        ]
        try:
            await there(port)
            await there(ours)
            plain = {"protocol": "chat", "model": "m", "typed": False}
            yield "a bare proxy", *await measured(processes[0][1], port, **plain)
            gateway = processes[1][1]
            for protocol in PATHS:
                how = {"protocol": protocol, "model": "careful", "typed": False}
                yield f"three rules, {protocol}", *await measured(gateway, ours, **how)
            how = {"protocol": "chat", "model": "through", "typed": False}
            yield "no rules, each delta, chat", *await measured(gateway, ours, **how)
            how = {"protocol": "chat", "model": "through", "typed": True}
            yield "a schema, each delta, chat", *await measured(gateway, ours, **how)
        finally:
            for process, _ in processes:
                process.terminate()
            for process, _ in processes:
                process.wait(60)
            server.close()


async def main():
    """Print the table."""
    print("| CPU of one process | µs a frame | ms a request |\n|---|---|---|")
    async for name, frame, request in rows():
        print(f"| {name} | {frame:.0f} | {request:.1f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bare", type=int)
    parser.add_argument("--upstream", type=int)
    given = parser.parse_args()
    if given.bare:
        bare(given.bare, given.upstream)
    else:
        asyncio.run(main())
