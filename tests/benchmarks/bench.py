"""`make bench`: what judging while streaming costs, beside a bare `async for` and beside mellea.

Every row is measured here and now, ours and mellea's in turn, the best of a few repeats each, as
these machines are noisy. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, Field
from pydantic_core import from_json

import streamval as sv
from streamval.chunkers import (
    LineChunker,
    MarkdownChunker,
    ParagraphChunker,
    RegexChunker,
    SentenceChunker,
    WordChunker,
)

MELLEA_SIDE = Path(__file__).with_name("mellea_side.py")


class From(sv.Backend):
    """Says what an async generator yields."""

    model = "bench"

    def __init__(self, source):
        self.source = source
        self.read = 0
        self.closed_at = 0.0

    async def stream(self, request):
        try:
            async for token in self.source():
                self.read += 1
                yield token
        finally:
            self.closed_at = time.perf_counter()


class Bare(From):
    """The same without counting, for the row about cost."""

    def stream(self, request):
        return self.source()


class Passing(sv.Requirement):
    """Passes every chunk."""

    async def stream_validate(self, chunk, *, backend, ctx):
        return sv.PartialValidationResult("pass")

    async def validate(self, backend, ctx, *, format=None, model_options=None):
        return sv.ValidationResult(True)


class PlainPassing(Passing):
    """Passes every chunk, as a plain function."""

    def stream_validate(self, chunk, *, backend, ctx):
        return sv.PartialValidationResult("pass")


class FailsAtOnce(Passing):
    """Fails the first chunk."""

    failed_at = 0.0

    async def stream_validate(self, chunk, *, backend, ctx):
        type(self).failed_at = time.perf_counter()
        return sv.PartialValidationResult("fail")


class Slow(Passing):
    """Takes its time over every chunk."""

    def __init__(self, seconds, **options):
        super().__init__("slow", **options)
        self.seconds = seconds

    async def stream_validate(self, chunk, *, backend, ctx):
        await asyncio.sleep(self.seconds)
        return sv.PartialValidationResult("pass")


def sentences(count, words, pause=0.0):
    """A source: `count` sentences of `words` tokens, with a pause before each sentence."""

    async def source():
        for _ in range(count):
            if pause:
                await asyncio.sleep(pause)
            for _ in range(words - 1):
                yield "word "
            yield "ends. "

    return source


async def timed(source, requirements, **options):
    """Seconds for one stream, consumed by one subscriber."""
    began = time.perf_counter()
    run = sv.Pipeline(Bare(source), requirements=requirements, **options).start("go")
    run.subscribe(lambda event: None)
    await run
    return time.perf_counter() - began


async def bare(source):
    """Seconds for a plain `async for` over the source."""
    began = time.perf_counter()
    async for _ in source():
        pass
    return time.perf_counter() - began


# The rows


async def token_cost(tokens, repeats, kind="Passing"):
    source = sentences(tokens // 12, 12)
    make = {
        "Passing": Passing,
        "PlainPassing": PlainPassing,
        "stream_check": lambda name: sv.stream_check(lambda text: True, name),
    }[kind]
    judges = [make(str(n)) for n in range(4)]
    costs = [await timed(source, judges) - await bare(source) for _ in range(repeats)]
    return min(costs) / tokens * 1e6


async def chunk_cost(chunking, repeats):
    """Microseconds a chunk, where each word, or each delta, is one."""
    source = sentences(500, 12)
    judges = [PlainPassing(str(n)) for n in range(4)]
    costs = [
        await timed(source, judges, chunking=chunking) - await bare(source) for _ in range(repeats)
    ]
    return min(costs) / 6000 * 1e6


def no_boundary(repeats):
    """The worst ratio of any chunker, each on text in which it finds nothing to cut."""
    cases = {
        "sentence": (SentenceChunker, "word "),
        "word": (WordChunker, "aaaaa"),
        "line": (LineChunker, "word "),
        "paragraph": (ParagraphChunker, "word\n"),
        "markdown": (MarkdownChunker, "word\n"),
        "regex": (lambda: RegexChunker(";"), "word "),
    }
    # As many tokens for both, so that each is as likely to meet a slow moment of the machine.
    streams = {5000: 8, 40000: 1}
    ratios = {}
    for name, (make, token) in cases.items():
        best = dict.fromkeys(streams, float("inf"))
        for _ in range(repeats):
            for tokens, times in streams.items():
                began = time.perf_counter()
                for _ in range(times):
                    chunker = make()
                    for _ in range(tokens):
                        chunker.feed(token)
                best[tokens] = min(best[tokens], time.perf_counter() - began)
        ratios[name] = best[40000] / best[5000]
    return ratios


async def fail_to_close(repeats):
    delays = []
    for _ in range(repeats):
        backend = From(sentences(50, 4, pause=0.01))
        pipeline = sv.Pipeline(backend, requirements=[Slow(1.0), FailsAtOnce("fails")])
        await pipeline.run("go")
        delays.append(backend.closed_at - FailsAtOnce.failed_at)
    return min(delays) * 1e3


async def overlapping_judge():
    return await timed(sentences(20, 4, pause=0.06), [Slow(0.2, max_concurrency=8)])


async def many_runs(runs, tokens, judge):
    source = sentences(tokens // 12, 12)
    began = time.perf_counter()
    await asyncio.gather(*(timed(source, [judge]) for _ in range(runs)))
    return (time.perf_counter() - began) / (runs * tokens) * 1e6


async def runs_in_a_row(runs, tokens, judge):
    """Microseconds a token of the same runs, one after another."""
    source = sentences(tokens // 12, 12)
    began = time.perf_counter()
    for _ in range(runs):
        await timed(source, [judge])
    return (time.perf_counter() - began) / (runs * tokens) * 1e6


async def waiting_run_memory(runs):
    """KiB of one run that waits for its model, with one requirement."""
    gate = asyncio.Event()

    async def waits():
        yield "One "
        await gate.wait()

    async def drive():
        await sv.Pipeline(Bare(waits), requirements=[Passing("one")]).run("go")

    await asyncio.gather(*(asyncio.wait_for(drive(), 10), _set_soon(gate)))  # everything imported
    gate.clear()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tasks = [asyncio.create_task(drive()) for _ in range(runs)]
    for _ in range(20):
        await asyncio.sleep(0)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    gate.set()
    await asyncio.gather(*tasks)
    return (after - before) / runs / 1024


async def _set_soon(gate):
    await asyncio.sleep(0.05)
    gate.set()


async def fast_source(tokens, limit):
    """A source far faster than a validator: how far ahead it was read, and the memory it took."""
    judged = ahead = 0

    async def source():
        for _ in range(tokens):
            yield "word "

    class Behind(Passing):
        async def stream_validate(self, chunk, *, backend, ctx):
            nonlocal judged, ahead
            ahead = max(ahead, speaking.read - judged)
            if judged % 16 == 0:
                await asyncio.sleep(0)
            judged += 1
            return sv.PartialValidationResult("pass")

    speaking = From(source)
    pipeline = sv.Pipeline(
        speaking, requirements=[Behind("behind")], chunking=None, max_pending_chunks=limit
    )
    tracemalloc.start()
    await pipeline.run("go")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return ahead, peak / (tokens * 5)


class Item(BaseModel):
    id: int = Field(ge=0)
    name: str
    ok: bool


class Items(BaseModel):
    count: int = Field(ge=0)
    items: list[Item]


def items(size):
    """JSON of about so many bytes."""
    item = '{"id": 123, "name": "some name here", "ok": true}'
    return '{"count": 1, "items": [' + ",".join([item] * int(size / len(item))) + "]}"


async def json_cost(size, repeats, wanted=Items):
    """Microseconds a byte of a pipeline with a format, in 4-byte deltas."""
    text, best = items(size), float("inf")
    for _ in range(repeats):
        pipeline = sv.Pipeline(Bare(lambda: _tokens(text)), format=wanted)
        began = time.process_time()
        result = await pipeline.run("go")
        best = min(best, time.process_time() - began)
        assert result.parsed is not None
    return best / len(text) * 1e6


def json_by_others(size):
    """Seconds for the same deltas, parsed anew at each, as is done today."""
    text = items(size)
    texts = [text[:end] for end in range(4, len(text) + 4, 4)]
    ways = {
        "pydantic-core `from_json(allow_partial=True)` at each delta": lambda part: from_json(
            part, allow_partial="trailing-strings"
        ),
        "… and the partial object validated": lambda part: Items.model_validate(
            from_json(part, allow_partial="trailing-strings"), extra="ignore"
        ),
    }
    seconds = {}
    for name, read in ways.items():
        began = time.process_time()
        for part in texts:
            with suppress(ValueError):
                read(part)
        seconds[name] = time.process_time() - began
    return seconds


async def wrong_first_field():
    """(tokens until a wrong first field is noticed, tokens of the whole object)"""
    item = '{"id": 1, "name": "a name", "ok": true}'
    text = '{"count": "many", "items": [' + ", ".join([item] * 50) + "]}"
    backend = From(lambda: _tokens(text))
    result = await sv.Pipeline(backend, format=Items).run("go")
    assert not result.success
    return result.usage.completion_tokens, len(text) // 4


async def _tokens(text):
    for start in range(0, len(text), 4):
        yield text[start : start + 4]


def import_seconds(python, statement):
    """CPU seconds of an interpreter that imports something, less those of one that does not."""

    def cpu(code):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([python, "-c", code], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(cpu(statement) for _ in range(5)) - min(cpu("pass") for _ in range(5))


def instructions(kind):
    """Instructions a token, counted by valgrind; `None` without it."""
    if shutil.which("valgrind") is None:
        return None

    def count(tokens):
        command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        ours = [sys.executable, __file__, "--token-cost", kind, str(tokens), "1"]
        same = {**os.environ, "PYTHONHASHSEED": "0"}
        done = subprocess.run(
            [*command, *ours], capture_output=True, text=True, check=True, env=same
        )
        return int(done.stderr.rsplit("Collected :", 1)[1].split()[0])

    return (count(4800) - count(1200)) / 3600


class Mellea:
    """mellea in an interpreter of its own."""

    def __init__(self, python):
        self.python = python

    def __call__(self, row, *arguments):
        done = subprocess.run(
            [self.python, MELLEA_SIDE, row, json.dumps(arguments)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        return json.loads(done.stdout.splitlines()[-1])


def in_turn(ours, theirs, rounds=5):
    """The best of each, measured in turn, as the machine's speed drifts."""
    pairs = [(ours(), theirs()) for _ in range(rounds)]
    return min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)


def other_pythons():
    """Pythons 3.12 and later that have streamval, as `make test-fast VENV=.venv312` leaves them."""
    return sorted(Path().glob(".venv3*/bin/python"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mellea", help="a Python that has mellea 0.8.0")
    parser.add_argument(
        "--token-cost", nargs=3, metavar=("KIND", "TOKENS", "REPEATS"), help="that row alone"
    )
    given = parser.parse_args()
    if given.token_cost:
        kind, tokens, repeats = given.token_cost
        print(asyncio.run(token_cost(int(tokens), int(repeats), kind)))
        return
    mellea = Mellea(given.mellea)

    def row(work, ours, theirs="–", ratio="–"):
        print(f"| {work} | {ours} | {theirs} | {ratio} |", flush=True)

    def ratio(ours, theirs, digits=2):
        return f"{ours / theirs:.{digits}f}"

    print(
        f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} processors\n"
    )
    print("| work | streamval | mellea 0.8.0 | ratio |\n|---|---|---|---|", flush=True)

    for what, kind in (("plain functions", "stream_check"), ("coroutine functions", "Passing")):
        ours, theirs = in_turn(
            lambda kind=kind: asyncio.run(token_cost(12_000, 5, kind)),
            lambda: mellea("token_cost", 12_000, 5),
        )
        row(
            f"cost a token over the bare source: sentences of 12 tokens, 4 requirements that are {what}, one subscriber",
            f"{ours:.2f} µs",
            f"{theirs:.2f} µs",
            ratio(ours, theirs),
        )
        if (counted := instructions(kind)) is not None:
            row("… in instructions a token, the source's included", f"{counted:,.0f}")
    for python in other_pythons():
        command = [str(python), __file__, "--token-cost", "Passing", "12000", "7"]

        def there(command=command):
            return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

        ours, theirs = in_turn(there, lambda: mellea("token_cost", 12_000, 5))
        version = subprocess.run([python, "--version"], capture_output=True, text=True, check=True)
        row(
            f"coroutine functions on {version.stdout.strip()}, mellea on 3.11",
            f"{ours:.2f} µs",
            f"{theirs:.2f} µs",
            ratio(ours, theirs),
        )
    words, deltas = (asyncio.run(chunk_cost(chunking, 5)) for chunking in ("word", None))
    row(
        "words, and deltas, as chunks: cost a chunk, 4 plain requirements",
        f"{words:.1f}, {deltas:.1f} µs",
    )

    ratios = no_boundary(12)
    worst = max(ratios, key=ratios.get)
    theirs = mellea("no_boundary", 3)
    row(
        "text without a boundary, cost a token at 40,000 tokens against 5,000, worst chunker",
        f"{ratios[worst]:.2f} times ({worst})",
        f"{theirs:.1f} times",
        ratio(ratios[worst], theirs),
    )
    ours, theirs = asyncio.run(fail_to_close(5)), mellea("fail_to_close", 3)
    row(
        "first fail to source closed, beside a validator that takes 1 s",
        f"{ours:.2f} ms",
        f"{theirs:.0f} ms",
        ratio(ours, theirs, 4),
    )
    ours, theirs = asyncio.run(overlapping_judge()), mellea("overlapping_judge")
    row(
        "20 sentences of 60 ms and a stateless judge of 200 ms (1.4 s at best)",
        f"{ours:.2f} s",
        f"{theirs:.2f} s",
        ratio(ours, theirs),
    )
    for what, judge in (("plain function", PlainPassing), ("coroutine function", Passing)):
        pairs = [
            (asyncio.run(many_runs(1000, 240, judge("one"))), mellea("many_runs", 1000, 240))
            for _ in range(5)
        ]
        spread = sorted(ours / theirs for ours, theirs in pairs)
        row(
            f"1,000 runs at once, 1 requirement (a {what}), cost a token",
            f"{min(ours for ours, _ in pairs):.1f} µs",
            f"{min(theirs for _, theirs in pairs):.1f} µs",
            f"{spread[2]:.2f} ({spread[0]:.2f} to {spread[-1]:.2f})",
        )
        together = min(ours for ours, _ in pairs)
        alone = min(asyncio.run(runs_in_a_row(300, 240, judge("one"))) for _ in range(3))
        row(
            f"… beside the same runs one after another ({what})",
            f"{together:.1f} µs",
            f"{alone:.1f} µs (that)",
            ratio(together, alone),
        )
    memory = asyncio.run(waiting_run_memory(1000))
    row("memory of a run that waits for its model", f"{memory:.0f} KiB")
    ahead, copies = asyncio.run(fast_source(300_000, 64))
    row(
        "source far faster than a validator, 300,000 tokens, max_pending_chunks=64: most chunks ahead",
        f"{ahead}",
    )
    row("… and peak memory, in copies of the text", f"{copies:.1f}")

    costs = [
        asyncio.run(json_cost(size, repeats)) for size, repeats in ((1e5, 5), (1e6, 2), (4e6, 1))
    ]
    row(
        "JSON in 4-byte deltas, pipeline with `format=`, cost a byte at 0.1, 1 and 4 MB",
        ", ".join(f"{cost:.1f}" for cost in costs) + " µs",
    )
    by_schema = asyncio.run(json_cost(1e5, 5, Items.model_json_schema()))
    row("… by a JSON Schema, 0.1 MB", f"{by_schema:.1f} µs")
    size = 50_000
    ours = asyncio.run(json_cost(size, 3)) * size / 1e6
    for name, seconds in json_by_others(size).items():
        row(
            f"50 KB of it: all of the pipeline, beside {name}",
            f"{ours:.2f} s",
            f"{seconds:.1f} s (that)",
            ratio(ours, seconds, 3),
        )
    noticed, whole = asyncio.run(wrong_first_field())
    row(
        "tokens until a wrong first field is noticed, beside the whole object",
        f"{noticed}",
        f"{whole} (any validation of the whole)",
        ratio(noticed, whole, 3),
    )
    ours = import_seconds(sys.executable, "import streamval")
    used = import_seconds(sys.executable, "from streamval import Pipeline")
    theirs = import_seconds(mellea.python, "from mellea.stdlib.streaming import stream")
    row("`import streamval`, CPU", f"{ours:.2f} s", f"{theirs:.2f} s", ratio(ours, theirs))
    row(
        "`from streamval import Pipeline`, CPU",
        f"{used:.2f} s",
        f"{theirs:.2f} s",
        ratio(used, theirs),
    )


if __name__ == "__main__":
    main()
