"""`make bench-exposure`: what clients see of planted violations, through the gateway and through peers.

The cases, the scripted upstream and the client are those of `streamval exposure`. Peers that are servers are asked
as any endpoint; peers that are libraries read the upstream's text themselves, in environments of their own
(`exposure_peers.py`). Prints the table of `docs/exposure.md`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from peer_servers import SERVERS, running

from streamval.commands.exposure import OURS, served, with_upstream
from streamval.exposure.client import Endpoint, Seen
from streamval.exposure.measure import counted, measured
from streamval.exposure.planted import HARMLESS, all_cases
from streamval.exposure.upstream import Upstream

PAUSE = 0.010
PORT = 18_713


async def by_library(upstream, peer, python, port):
    """Rows of a peer that is a library. It reads text, so cases in other places are not its own."""
    script = Path(__file__).with_name("exposure_peers.py")
    numbers = {n: case for n, case in enumerate(all_cases()) if case.place in ("text", "json")}
    asked = [[n, case.kind == HARMLESS] for n, case in numbers.items()]
    process = await asyncio.create_subprocess_exec(
        *(python, str(script), peer, str(port)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, wrong = await process.communicate(json.dumps(asked).encode())
    if process.returncode:
        sys.exit(f"{peer} cannot be measured:\n{wrong.decode()}")
    seen = {number: Seen(**fields) for number, fields in json.loads(out.splitlines()[-1])}
    return counted(seen, upstream.sent, PAUSE, protocol="library", streamed=True)


async def rows_of(name, peers, upstream, port, folder):
    """Rows of a peer, or of ours."""
    url = f"http://127.0.0.1:{port}/v1"
    if name == "streamval":
        with served(with_upstream(OURS, url), None) as served_at:
            return await measured(upstream, Endpoint(served_at, "careful", "typed"), PAUSE)
    if name not in SERVERS:
        return await by_library(upstream, name, peers[name], port)
    with running(name, peers[name], port, PORT, folder):
        endpoint = Endpoint(f"http://127.0.0.1:{PORT}/v1", "careful", "careful", "sk-none")
        return await measured(
            upstream, endpoint, PAUSE, note=lambda text: print(name, text, file=sys.stderr)
        )


def cell(row):
    if row is None:
        return "not read"
    return f"{row.shown} · {row.paid} · {row.valid}"


def last_cell(row):
    stopped = row.cases - row.valid
    return f"{stopped} stopped, first text {row.first_ms:.0f} ms, {row.added_ms:.0f} ms added"


def table(measured_rows, protocols, *, streamed):
    """The table of one way to ask; a library has one way."""
    names = [
        name
        for name, rows in measured_rows.items()
        if any(row.protocol in protocols and row.streamed == streamed for row in rows)
    ]
    print("| violation | of |" + "".join(f" {name} |" for name in names))
    print("|---|---|" + "---|" * len(names))
    for kind in dict.fromkeys(case.kind for case in all_cases()):
        found = [
            next(
                (
                    row
                    for row in measured_rows[name]
                    if row.kind == kind and row.streamed == streamed and row.protocol in protocols
                ),
                None,
            )
            for name in names
        ]
        count = sum(case.kind == kind for case in all_cases())
        if kind == HARMLESS:
            ends = [
                ", ".join(
                    dict.fromkeys(
                        end
                        for row in measured_rows[name]
                        for end in row.ends
                        if row.streamed == streamed
                        and row.protocol in protocols
                        and row.kind != HARMLESS
                    )
                )
                for name in names
            ]
            print("| ends | | " + " | ".join(ends) + " |")
            print(f"| harmless | {count} | " + " | ".join(map(last_cell, found)) + " |")
        else:
            print(f"| {kind} | {count} | " + " | ".join(map(cell, found)) + " |")
    print()


async def main(peers):
    upstream, measured_rows = Upstream(PAUSE), {}
    async with upstream.listening("127.0.0.1", 0) as port:
        with tempfile.TemporaryDirectory() as folder:
            for name in ["streamval", *peers]:
                upstream.sent.clear()
                measured_rows[name] = await rows_of(name, peers, upstream, port, folder)
    print("Chat completions, streamed; libraries by their own way:\n")
    table(measured_rows, ("chat", "library"), streamed=True)
    print("Chat completions, not streamed:\n")
    table(measured_rows, ("chat",), streamed=False)
    for name in ("responses", "messages"):
        print(f"{name}, streamed:\n")
        table(measured_rows, (name,), streamed=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", action="append", default=[], help="NAME=PYTHON")
    given = parser.parse_args()
    asyncio.run(main(dict(peer.split("=", 1) for peer in given.peer)))
