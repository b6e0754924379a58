"""A client whose network vanishes in the middle of an answer: run in a network namespace of its own.

No FIN, no RST: its address is turned into a black hole, so that whatever either side sends is lost. Prints
how long the upstream was kept after that; a client that is silent is found by probes, one that is sent text
by what is not acknowledged. All of it is loopback.
"""

import asyncio
import subprocess
import sys
import time

from tests.support.gateway import gateway
from tests.support.upstream import upstream, words

HEAD = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nContent-Length: "
)
ASK = b'{"model": "judged", "stream": true, "messages": [{"role": "user", "content": "x"}]}'


async def vanish(*script):
    """Seconds until the upstream of a client that has vanished is closed."""
    async with (
        upstream([*words("One is fine. Two "), *script]) as behind,
        gateway(behind.url, server=", ping_seconds: 2") as serving,
    ):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", int(serving.url.rpartition(":")[2]), local_addr=("127.0.0.2", 0)
        )
        writer.write(HEAD + b"%d\r\n\r\n" % len(ASK) + ASK)
        await reader.readuntil(b"One is fine.")
        subprocess.run(
            ["ip", "route", "add", "blackhole", "127.0.0.2/32", "table", "local"], check=True
        )
        began = time.monotonic()
        await asyncio.wait_for(behind.requests[0].gone.wait(), 60)
        took = time.monotonic() - began
        subprocess.run(
            ["ip", "route", "del", "blackhole", "127.0.0.2/32", "table", "local"], check=True
        )
        writer.transport.abort()
        return took


async def main():
    print(await vanish("STALL"))
    print(await vanish(*(["is fine. ", 0.1] * 600)))


if __name__ == "__main__":
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    sys.exit(asyncio.run(main()))
