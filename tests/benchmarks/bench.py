"""`make bench`: what judging while streaming costs, beside a bare `async for` and beside mellea.

Every row is measured here and now, ours and mellea's in turn, the best of a few repeats each, as
these machines are noisy. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

from pydantic import BaseModel, Field

import streamval as sv
from streamval.chunkers import (
    JSONChunker,
    LineChunker,
    MarkdownChunker,
    ParagraphChunker,
    RegexChunker,
    SentenceChunker,
    WordChunker,
)
from streamval.schema import Schema, SchemaWatch

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


async def timed(source, requirements):
    """Seconds for one stream, consumed as events."""
    began = time.perf_counter()
    async with sv.Pipeline(Bare(source), requirements=requirements).start("go") as run:
        async for _ in run:
            pass
    return time.perf_counter() - began


async def bare(source):
    """Seconds for a plain `async for` over the source."""
    began = time.perf_counter()
    async for _ in source():
        pass
    return time.perf_counter() - began


# The rows


async def token_cost(tokens, repeats):
    source = sentences(tokens // 12, 12)
    judges = [Passing(str(n)) for n in range(4)]
    costs = [await timed(source, judges) - await bare(source) for _ in range(repeats)]
    return min(costs) / tokens * 1e6


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


async def many_runs(runs, tokens):
    source = sentences(tokens // 12, 12)
    began = time.perf_counter()
    await asyncio.gather(*(timed(source, [Passing("one")]) for _ in range(runs)))
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


def json_cost(megabytes, repeats):
    """Microseconds a byte: values cut by the chunker, and judged against the schema."""
    item = '{"id": 123, "name": "some name here", "ok": true}'
    text = '{"count": 1, "items": [' + ",".join([item] * int(megabytes * 1e6 / len(item))) + "]}"
    best = float("inf")
    for _ in range(repeats):
        chunker, watch = JSONChunker(), SchemaWatch(Schema(Items))
        began = time.process_time()
        for start in range(0, len(text), 4):
            delta = text[start : start + 4]
            chunker.feed(delta)
            complaint = watch.feed(delta)
            assert complaint is None
        best = min(best, time.process_time() - began)
    return best / len(text) * 1e6


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
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run([python, "-c", statement], check=True)
        best = min(best, time.perf_counter() - began)
    return best


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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mellea", required=True, help="a Python that has mellea 0.8.0")
    mellea = Mellea(parser.parse_args().mellea)
    rows = []

    def row(work, ours, theirs, ratio):
        rows.append(f"| {work} | {ours} | {theirs} | {ratio} |")
        print(rows[-1], flush=True)

    print("| work | streamval | mellea 0.8.0 | ratio |\n|---|---|---|---|", flush=True)

    ours, theirs = in_turn(
        lambda: asyncio.run(token_cost(12_000, 5)), lambda: mellea("token_cost", 12_000, 5)
    )
    row(
        "cost a token over the bare source: 4 requirements, sentences of 12 tokens, events on",
        f"{ours:.1f} µs",
        f"{theirs:.1f} µs",
        f"{ours / theirs:.2f}",
    )

    ratios = no_boundary(12)
    worst = max(ratios, key=ratios.get)
    theirs = mellea("no_boundary", 3)
    row(
        "text without a boundary, cost a token at 40,000 tokens against 5,000, worst chunker",
        f"{ratios[worst]:.2f} times ({worst})",
        f"{theirs:.1f} times",
        f"{ratios[worst] / theirs:.2f}",
    )

    ours, theirs = asyncio.run(fail_to_close(5)), mellea("fail_to_close", 3)
    row(
        "first fail to source closed, beside a validator that takes 1 s",
        f"{ours:.2f} ms",
        f"{theirs:.0f} ms",
        f"{ours / theirs:.4f}",
    )

    ours, theirs = asyncio.run(overlapping_judge()), mellea("overlapping_judge")
    row(
        "20 sentences of 60 ms and a stateless judge of 200 ms (1.4 s at best)",
        f"{ours:.2f} s",
        f"{theirs:.2f} s",
        f"{ours / theirs:.2f}",
    )

    ours, theirs = in_turn(
        lambda: asyncio.run(many_runs(1000, 240)), lambda: mellea("many_runs", 1000, 240), rounds=2
    )
    row(
        "1,000 runs at once, 1 requirement, cost a token",
        f"{ours:.1f} µs",
        f"{theirs:.1f} µs",
        f"{ours / theirs:.2f}",
    )
    memory = asyncio.run(waiting_run_memory(1000))
    row("memory of a run that waits for its model", f"{memory:.0f} KiB", "–", "–")

    ahead, copies = asyncio.run(fast_source(300_000, 64))
    row(
        "source far faster than a validator, 300,000 tokens, max_pending_chunks=64: most chunks ahead",
        f"{ahead}",
        "–",
        "–",
    )
    row("… and peak memory, in copies of the text", f"{copies:.1f}", "–", "–")

    json_costs = [json_cost(size, repeats) for size, repeats in ((0.1, 30), (1, 3), (4, 1))]
    row(
        "JSON in 4-byte deltas, values cut and schema checked, cost a byte at 0.1, 1 and 4 MB",
        ", ".join(f"{cost:.1f}" for cost in json_costs) + " µs",
        "–",
        "–",
    )
    noticed, whole = asyncio.run(wrong_first_field())
    row(
        "tokens until a wrong first field is noticed, beside the whole object",
        f"{noticed}",
        f"{whole} (any validation of the whole)",
        f"{noticed / whole:.3f}",
    )

    ours = import_seconds(sys.executable, "import streamval")
    used = import_seconds(sys.executable, "from streamval import Pipeline, ScriptedBackend")
    theirs = import_seconds(mellea.python, "from mellea.stdlib.streaming import stream")
    row("`import streamval`", f"{ours:.2f} s", f"{theirs:.2f} s", f"{ours / theirs:.2f}")
    row("… with `Pipeline` in use", f"{used:.2f} s", f"{theirs:.2f} s", f"{used / theirs:.2f}")


if __name__ == "__main__":
    main()
