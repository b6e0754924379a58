"""`make bench-gateway`: what the gateway costs beside the same upstream without it, and how it bears load.

An upstream, the gateway and the clients run in processes of their own, on loopback. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parent))

import gateway_cpu
import peer_servers
from gateway_cpu import FILE, there

FRAMES = 100
PAUSE = 0.010


async def upstream(port, frames, pause):
    """Says sentences of ten words, a frame a word, each after a pause."""
    heads = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"

    def frame(delta, reason=None):
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return b"data: " + json.dumps({"id": "u", "choices": [choice]}).encode() + b"\n\n"

    said = [
        frame({"content": f"Word{n // 10} ends. " if n % 10 == 9 else f"word{n} "})
        for n in range(frames)
    ]

    async def serve(reader, writer):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            writer.write(heads)
            began = time.perf_counter()
            for n, one in enumerate(said, 1):
                wait = began + n * pause - time.perf_counter()
                if wait > 0:
                    await asyncio.sleep(wait)
                writer.write(one)
                await writer.drain()
            writer.write(frame({}, "stop") + b"data: [DONE]\n\n")
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port, backlog=2048)
    async with server:
        await server.serve_forever()


async def one(port, model):
    """One streamed request; returns seconds to the first byte of the body, and in all, and the text."""
    body = json.dumps(
        {"model": model, "stream": True, "messages": [{"role": "user", "content": "Say it."}]}
    ).encode()
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )
    await reader.readuntil(b"\r\n\r\n")
    first, text = 0.0, []
    async for line in reader:
        if line.startswith(b"data: {"):
            first = first or time.perf_counter() - began
            for choice in json.loads(line[6:])["choices"]:
                text.append(choice["delta"].get("content") or "")
    writer.close()
    return first, time.perf_counter() - began, "".join(text).rstrip()


async def many(port, model, count):
    began = time.perf_counter()
    answers = await asyncio.gather(*(one(port, model) for _ in range(count)))
    return time.perf_counter() - began, answers


def started(*arguments):
    return subprocess.Popen(
        [sys.executable, *arguments], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )


class Running:
    """The upstream and the gateway, each a process."""

    def __init__(self, frames, pause, workers=1):
        self.upstream, self.gateway = 18_701, 18_702
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name, "gateway.yaml")
        path.write_text(FILE.format(upstream=self.upstream, port=self.gateway))
        here = str(Path(__file__))
        self.processes = [
            started(
                here,
                "--upstream",
                str(self.upstream),
                "--frames",
                str(frames),
                "--pause",
                str(pause),
            ),
            started("-m", "streamval.cli", "serve", str(path), f"--workers={workers}"),
        ]

    async def __aenter__(self):
        await there(self.upstream)
        await there(self.gateway)
        return self

    async def __aexit__(self, *_):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(60)
        self.folder.cleanup()

    def memory(self):
        """Of the gateway and its workers, in bytes."""
        main = psutil.Process(self.processes[1].pid)
        return sum(process.memory_info().rss for process in [main, *main.children(recursive=True)])


async def cost(rows, repeats):
    async with Running(FRAMES, PAUSE) as running:
        await many(running.gateway, "careful", 5)  # everything is loaded
        ratios, direct_first, first = [], [], []
        for _ in range(repeats):
            direct, answers = await many(running.upstream, "m", 100)
            through, judged = await many(running.gateway, "careful", 100)
            assert {text for *_, text in judged} == {text for *_, text in answers}
            ratios.append(through / direct)
        through_first = []
        for _ in range(20):
            through_first.append((await one(running.gateway, "through"))[0])
            direct_first.append((await one(running.upstream, "m"))[0])
            first.append((await one(running.gateway, "careful"))[0])
        direct = statistics.median(direct_first)
        added = statistics.median(through_first) - direct
        rows.append(("added time to the first byte, each delta a chunk", f"{added * 1000:.1f} ms"))
        # The first sentence has ten frames and the beginning of the next one: so long it is waited for.
        waits = 11 * PAUSE - PAUSE
        added = statistics.median(first) - direct - waits
        rows.append(
            (
                "100 streams of 100 frames at 10 ms, times the upstream without it",
                f"{min(ratios):.2f}",
            )
        )
        rows.append(
            ("time to the first byte, beyond the first sentence's end", f"{added * 1000:.1f} ms")
        )


async def cost_of(peer, python, rows, repeats):
    """The same of a peer's server: without rules for the first byte, with rules for a hundred streams."""
    with tempfile.TemporaryDirectory() as folder:
        async with Running(FRAMES, PAUSE) as running:
            port = 18_703
            with peer_servers.running(peer, python, running.upstream, port, folder, rules=False):
                await many(port, "careful", 5)
                firsts, direct = [], []
                for _ in range(20):
                    firsts.append((await one(port, "careful"))[0])
                    direct.append((await one(running.upstream, "m"))[0])
            added = statistics.median(firsts) - statistics.median(direct)
            rows.append(
                (f"{peer}, without rules: added to the first byte", f"{added * 1000:.1f} ms")
            )
            with peer_servers.running(peer, python, running.upstream, port, folder):
                await many(port, "careful", 5)
                ratios = []
                for _ in range(repeats):
                    alone, answers = await many(running.upstream, "m", 100)
                    through, said = await many(port, "careful", 100)
                    whole = sum(text == answers[0][2] for *_, text in said)
                    ratios.append((through / alone, whole))
            ratio, whole = min(ratios)
            rows.append(
                (
                    f"{peer}, with its rules: 100 streams, times the upstream",
                    f"{ratio:.2f} ({whole} of 100 whole)",
                )
            )


async def load(rows, workers):
    async with Running(FRAMES, 0.05, workers) as running:
        await many(running.gateway, "careful", 5)
        before = running.memory()
        peak = before

        async def watch():
            nonlocal peak
            while True:
                peak = max(peak, running.memory())
                await asyncio.sleep(0.2)

        watching = asyncio.ensure_future(watch())
        seconds, answers = await many(running.gateway, "careful", 500)
        watching.cancel()
        took = sorted(one[1] for one in answers)
        assert len({text for *_, text in answers}) == 1
        name = f"500 streams at once, three rules, 100 frames at 50 ms (5 s), {workers} process"
        name += "es" if workers > 1 else ""
        rows.append(
            (name, f"{seconds:.1f} s; the slowest {took[-1] / took[0]:.2f} times the fastest")
        )
        rows.append(("… memory a stream", f"{(peak - before) / 500 / 1024:.0f} KiB"))


async def soak(rows, count):
    async with Running(10, 0.0) as running:
        await many(running.gateway, "careful", 200)
        sizes, done, began = [running.memory()], 0, time.perf_counter()
        while done < count:
            _, answers = await many(running.gateway, "careful", 50)
            done += len(answers)
            if not done % (count // 4):
                sizes.append(running.memory())
        rate = done / (time.perf_counter() - began)
        grown = ", ".join(f"{size / 2**20:.0f}" for size in sizes)
        rows.append((f"{count:,} requests of 10 frames, 50 at once", f"{rate:.0f} a second"))
        rows.append(("… memory after each quarter", f"{grown} MiB"))


async def main(repeats, requests, peers):
    rows = []
    await cost(rows, repeats)
    for peer, python in peers.items():
        await cost_of(peer, python, rows, repeats)
    for workers in (1, 2):
        await load(rows, workers)
    await soak(rows, requests)
    print("| | |\n|---|---|")
    for name, value in rows:
        print(f"| {name} | {value} |")
    print()
    await gateway_cpu.main()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--peer", action="append", default=[], help="NAME=PYTHON")
    parser.add_argument("--upstream", type=int)
    parser.add_argument("--frames", type=int)
    parser.add_argument("--pause", type=float)
    given = parser.parse_args()
    if given.upstream:
        asyncio.run(upstream(given.upstream, given.frames, given.pause))
    else:
        asyncio.run(
            main(given.repeats, given.requests, dict(one.split("=", 1) for one in given.peer))
        )
