"""`make bench-exposure`: forty planted violations and ten clean texts, through the gateway.

What a client saw of each violation before the stop, what was paid after it, what it cost the clean texts. An
upstream and the gateway run in processes of their own; the upstream says a word each 10 ms, and goes on
well where a repair asks it to. Prints a Markdown table, a row for each kind.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from peer_servers import SERVERS, running

PAUSE = 0.010
SUBJECTS = ["harbour", "garden", "library", "mountain", "kitchen", "station", "market", "bridge"]


def prose(seed, sentences):
    """English sentences, none of them twice."""
    told = [
        "The {a} of the town opens early on day {n} of the season.",
        "People walk from the {a} to the {b} and talk about their plans.",
        "In the evening a quiet light falls over the old {a} and its {b}.",
        "Somebody has painted the door of the {a} in a deep and friendly green.",
        "Every visitor asks why the {a} was built so close to the {b}.",
        "Nobody remembers when the {a} was without its small wooden bench.",
    ]
    for n in range(sentences):
        at = seed + n
        words = {"a": SUBJECTS[at % 8], "b": SUBJECTS[(at * 3 + n) % 8], "n": at + 11}
        yield told[n % 6].format(**words) + ("" if n < 6 else f" It was number {at + n * 7}.")


@dataclass(frozen=True)
class Case:
    """One text: what comes before, the violation in the pieces in which it comes, what comes after."""

    kind: str
    before: tuple[str, ...]
    violation: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def pieces(self):
        return (*self.before, *self.violation, *self.after)

    @property
    def bad(self):
        return "".join(self.violation).strip()


def words(text):
    return tuple(f"{word} " for word in text.split(" "))


def around(kind, seed, violation, sentences=4):
    """The violation in its own sentence, after four good ones."""
    text = list(prose(seed, 10))
    before, after = " ".join(text[:sentences]), " ".join(text[sentences:])
    return Case(kind, words(f"{before} It says"), violation, words(f"there. {after}"))


def cases():
    """Forty violations of seven kinds, and ten clean texts."""
    for n, word in enumerate(
        ["acme", "Globex", "initech", "HOOLI", "umbrella-corp", "acme's", "Acme,", "soylent"]
    ):
        yield around("a word", n, (f"{word} ",))
    for n, (one, two) in enumerate(
        [
            ("proj", "ect x-"),
            ("project ", "x-"),
            ("PROJ", "ECT X-"),
            ("projec", "t x-"),
            ("p", "roject x-"),
            ("project", " x-"),
        ]
    ):
        yield around("a pattern over deltas", n + 8, (one, two, f"{n}7 "))
    keys = [
        "AKIA" + "QX7DLP3ZK4MV2HTN",
        "ghp_" + "a8Kd72mQpZr5XvB1tYw9LnC4sGh3JfE6uRi0",
        "sk_" + "live_" + "4eC39HqLyjWDarjtT1zdp7dc",
        "xoxb" + "-263594206564-2343594206574-FGqddMF8t08v8N7Oq4i57vs1",
        "AKIA" + "ZR5TNW6QLM3X7JPB",
        "ghp_" + "Zq81LmXcV0bNhRt6YwEs3KdJfGu5PoIa7T2e",
    ]
    for n, key in enumerate(keys):
        yield around("a secret in pieces", n + 14, (key[:3], key[3:11], key[11:], " "))
    for n, card in enumerate(
        [
            "4111 1111 1111 1111",
            "5500005555555559",
            "3782 822463 10005",
            "6011-1111-1111-1117",
            "4012 8888 8888 1881",
            "5105105105105100",
        ]
    ):
        yield around("a number split in three", n + 20, (card[:5], card[5:11], card[11:], " "))
    for n, foreign in enumerate(
        [
            "Heute ist das Wetter in der ganzen Stadt wieder sehr schön und alle gehen spazieren. ",
            "Aujourd'hui il fait beau dans toute la ville et tout le monde se promène au soleil. ",
            "Hoy hace muy buen tiempo en toda la ciudad y todos salen a pasear por el parque. ",
            "Oggi il tempo è molto bello in tutta la città e tutti vanno a passeggio nel parco. ",
            "Vandaag is het weer in de hele stad heel mooi en iedereen gaat buiten wandelen. ",
        ]
    ):
        text = list(prose(n + 26, 10))
        yield Case(
            "an unwanted language",
            words(" ".join(text[:4])),
            words(foreign.strip()),
            words(" ".join(text[4:])),
        )
    for n in range(4):
        rest = ', "people": 3, "text": "' + " ".join(prose(n, 6)) + '"}'
        yield Case("a wrong first field", ('{"name"', ": "), (str(n + 1),), words(rest))
    for n in range(5):
        text = list(prose(n + 35, 10))
        yield Case(
            "a repetition", words(" ".join(text[:4])), words(text[1]), words(" ".join(text[4:]))
        )
    for n in range(10):
        text = list(prose(n + 50, 10))
        yield Case("clean", words(" ".join(text)), (), ())


ALL = tuple(cases())
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "people": {"type": "integer"},
        "text": {"type": "string"},
    },
    "required": ["name", "people", "text"],
}
FILE = """
upstreams: {{main: {{model: openai/m, api_base: "http://127.0.0.1:{upstream}/v1", continues: message}}}}
models:
  careful:
    upstream: main
    requirements:
      - forbidden_words: [acme, globex, initech, hooli, umbrella-corp, soylent]
      - forbidden_pattern: "(?i)project x-[0-9]+"
      - no_secrets
      - no_personal_data
      - language: en
      - no_repetition
    repair: {{loop_budget: 2}}
  typed: {{upstream: main, repair: {{loop_budget: 2}}, release: all}}
server: {{port: {port}, max_runs: 100}}
"""


async def upstream(port, log):
    """Says the case that is asked for; where it is to go on, it goes on well."""

    def frame(delta, reason=None):
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return b"data: " + json.dumps({"id": "u", "choices": [choice]}).encode() + b"\n\n"

    async def serve(reader, writer):
        sent, number, again = 0, -1, False
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
            body = json.loads(await reader.readexactly(length))
            asked = [one for one in body["messages"] if one["role"] != "system"]
            number = int(re.search(r"case (\d+)", json.dumps(asked))[1])
            # With what was wrong or what stands, in messages of their own or (a peer) behind the question.
            again = len(asked) > 1 or len(asked[0]["content"]) > 12
            case = ALL[number]
            pieces = case.pieces
            if again and case.kind == "a wrong first field":
                goes_on = asked[-1]["role"] == "assistant"  # behind `{"name":`
                pieces = (*(() if goes_on else ('{"name"', ": ")), '"Ann"', *case.after)
            elif again:  # behind what was good
                pieces = words(" All the rest of it is as good as anybody could wish.")
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
            )
            began = time.perf_counter()
            for n, piece in enumerate(pieces):
                wait = began + n * PAUSE - time.perf_counter()
                if wait > 0:
                    await asyncio.sleep(wait)
                if reader.at_eof() or writer.is_closing():
                    break
                writer.write(frame({"content": piece}))
                await writer.drain()
                sent += 1
            writer.write(frame({}, "stop") + b"data: [DONE]\n\n")
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        with log.open("a") as out:
            out.write(json.dumps({"case": number, "again": again, "sent": sent}) + "\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


@dataclass
class Seen:
    """What a client saw of a case."""

    text: str = ""
    first: float = 0.0
    seconds: float = 0.0
    end: str = "torn"


GOOD = {"stop", "done"}
"""Ends as after an answer that is whole; `done`: without a finish reason."""


async def ask(port, number, *, typed=False):
    body = {"model": "typed" if typed else "careful", "stream": True}
    body["messages"] = [{"role": "user", "content": f"case {number}"}]
    if typed:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "T", "schema": SCHEMA},
        }
    raw = json.dumps(body).encode()
    seen, began = Seen(), time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(raw) + raw
    )
    async for line in reader:
        if line.startswith(b"data: [DONE]") and seen.end == "torn":
            seen.end = "done"
        elif line.startswith(b"data: {"):
            said = json.loads(line[6:])
            if "error" in said:
                seen.end = "error"
            for choice in said.get("choices", ()):
                text = choice["delta"].get("content") or ""
                if text and not seen.first:
                    seen.first = time.perf_counter() - began
                seen.text += text
                seen.end = choice.get("finish_reason") or seen.end
    seen.seconds = time.perf_counter() - began
    writer.close()
    return seen


def exposed(case, seen):
    """Characters of the violation that were shown."""
    bad = case.bad
    if case.kind == "a repetition":
        return len(bad) if seen.text.count(bad) > 1 else 0
    if case.kind == "a wrong first field":
        return len(bad) if f'"name": {bad}' in seen.text else 0
    shown = 0
    while shown < len(bad) and bad[: shown + 1] in seen.text:
        shown += 1
    # The first letters of a word may be those of another one.
    return shown if shown > 3 else 0


async def all_of(ask):
    """Ten violations at a time, then one clean text after the other, for their times."""
    together = asyncio.Semaphore(10)

    async def one(number):
        async with together:
            return await ask(number)

    bad = await asyncio.gather(*(one(n) for n, case in enumerate(ALL) if case.kind != "clean"))
    return bad + [await ask(number) for number in range(len(bad), len(ALL))]


async def by_server(port, *, types=False):
    """What clients see through a server."""
    return await all_of(
        lambda n: ask(port, n, typed=types and ALL[n].kind == "a wrong first field")
    )


def by_peer(python, peer, port):
    """What clients see through a peer, in an environment of its own."""
    script = Path(__file__).with_name("exposure_peers.py")
    done = subprocess.run(
        [python, str(script), peer, str(port)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{peer} cannot be measured:\n{done.stderr}")
    return [Seen(**json.loads(line)) for line in done.stdout.splitlines()]


def counted(answers, log):
    """A row for each kind of violation."""
    sent = {}
    for line in log.read_text().splitlines():
        told = json.loads(line)
        if not told["again"]:
            sent[told["case"]] = told["sent"]
    rows = {}
    for number, (case, seen) in enumerate(zip(ALL, answers, strict=True)):
        row = rows.setdefault(case.kind, [])
        ends_at = len(case.before) + len(case.violation)
        text = "".join(case.pieces)
        sentence = len(words(text[: text.index(". ") + 1])) if ". " in text else 1
        row.append(
            {
                "shown": exposed(case, seen),
                "paid": max(sent.get(number, 0) - ends_at, 0),
                "valid": seen.end in GOOD and not exposed(case, seen),
                "end": seen.end,
                "first": (seen.first - sentence * PAUSE) * 1000,
                "added": (seen.seconds - (len(case.pieces) - 1) * PAUSE) * 1000,
            }
        )
    return rows


def table(measured):
    names = list(measured)
    print("| violation | of |" + "".join(f" {name} |" for name in names))
    print("|---|---|" + "---|" * len(names))
    for kind in measured[names[0]]:
        if kind == "clean":
            continue
        cells = []
        for rows in measured.values():
            row = rows[kind]
            ends = ", ".join(sorted({one["end"] for one in row}))
            cells.append(
                f"{max(one['shown'] for one in row)} shown, {max(one['paid'] for one in row)} paid, "
                f"{sum(one['valid'] for one in row)} valid ({ends})"
            )
        print(f"| {kind} | {len(measured[names[0]][kind])} | {' | '.join(cells)} |")
    cells = []
    for rows in measured.values():
        clean = rows["clean"]
        stopped = sum(one["end"] not in GOOD for one in clean)
        first = statistics.median(one["first"] for one in clean)
        added = statistics.median(one["added"] for one in clean)
        cells.append(f"{stopped} stopped, first text {first:.0f} ms, {added:.0f} ms added in all")
    print(f"| none | {len(clean)} | {' | '.join(cells)} |")
    print(
        "\nshown: most characters of a violation; paid: most deltas after it; first text: after the delta behind the first sentence."
    )


async def main(peers):
    with tempfile.TemporaryDirectory() as folder:
        path, log = Path(folder, "gateway.yaml"), Path(folder, "log")
        log.touch()
        path.write_text(FILE.format(upstream=18_711, port=18_712))
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        speaks = [sys.executable, __file__, "--upstream", "18711", "--log", str(log)]
        processes = [
            subprocess.Popen(speaks, **quiet),
            subprocess.Popen([sys.executable, "-m", "streamval.cli", "serve", str(path)], **quiet),
        ]
        try:
            for port in (18_711, 18_712):
                while True:
                    try:
                        _, writer = await asyncio.open_connection("127.0.0.1", port)
                    except OSError:
                        await asyncio.sleep(0.1)
                    else:
                        writer.close()
                        break
            await ask(18_712, len(ALL) - 1)  # everything is loaded
            measured = {}
            for name in ["streamval", *peers]:
                log.write_text("")
                if name == "streamval":
                    answers = await by_server(18_712, types=True)
                elif name in SERVERS:
                    with running(name, peers[name], 18_711, 18_713, folder):
                        await ask(18_713, len(ALL) - 1)
                        log.write_text("")
                        answers = await by_server(18_713)
                else:
                    answers = await asyncio.to_thread(by_peer, peers[name], name, 18_711)
                await asyncio.sleep(0.5)  # the upstream writes down what it has sent
                measured[name] = counted(answers, log)
            table(measured)
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(30)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upstream", type=int)
    parser.add_argument("--log")
    parser.add_argument("--peer", action="append", default=[], help="NAME=PYTHON")
    given = parser.parse_args()
    if given.upstream:
        asyncio.run(upstream(given.upstream, Path(given.log)))
    else:
        asyncio.run(main(dict(peer.split("=", 1) for peer in given.peer)))
