"""What clients see through a peer's library: run by `exposure.py` in an environment of the peer's own.

Needs nothing but the standard library and the peer. Prints JSON: a line a case.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from exposure import ALL, Seen

FORBIDDEN = ["acme", "globex", "initech", "hooli", "umbrella-corp", "soylent"]


async def deltas(port, number):
    """What the upstream says; closing it closes the connection."""
    body = json.dumps({"messages": [{"role": "user", "content": f"case {number}"}]}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    try:
        writer.write(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        async for line in reader:
            if line.startswith(b"data: {"):
                for choice in json.loads(line[6:])["choices"]:
                    if text := choice["delta"].get("content"):
                        yield text
    finally:
        writer.close()


async def by_stream_guard(source, seen, note):
    """Forbidden words; it has nothing else."""
    from llm_stream_guard import BlockedEvent, DeltaEvent, StreamGuard

    async for event in StreamGuard(FORBIDDEN).wrap(source):
        if isinstance(event, DeltaEvent):
            note(event.text)
        elif isinstance(event, BlockedEvent):
            seen.end = "blocked"
            return
    seen.end = "stop"


async def by_tripwire(source, seen, note):
    """Its detector that needs no key, as it comes."""
    from tripwire import Guard, HeuristicDetector

    async for chunk in Guard(HeuristicDetector()).supervise(source, user="case"):
        if chunk.type == "token":
            note(chunk.text)
        elif chunk.type == "intervention" and chunk.intervention.decision == "abort":
            seen.end = "blocked"
            return
    seen.end = "stop"


PEERS = {"llm-stream-guard": by_stream_guard, "tripwire-llm": by_tripwire}


async def one(peer, port, number):
    seen, began = Seen(), time.perf_counter()

    def note(text):
        seen.first = seen.first or time.perf_counter() - began
        seen.text += text

    source = deltas(port, number)
    try:
        await PEERS[peer](source, seen, note)
    finally:
        await source.aclose()
    seen.seconds = time.perf_counter() - began
    return seen


async def main(peer, port):
    together = asyncio.Semaphore(10)

    async def bounded(number):
        async with together:
            return await one(peer, port, number)

    for seen in await asyncio.gather(*(bounded(number) for number in range(len(ALL)))):
        print(json.dumps(vars(seen)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
