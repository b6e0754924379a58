"""mellea's side of the comparison: run by its own interpreter, where mellea 0.8.0 is installed.

Each function does the same work as its namesake in `ours.py`, through mellea's public `stream()`
and a backend that feeds its queue from the same source. Prints one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from mellea.core import Backend, CBlock, ModelOutputThunk, PartialValidationResult, Requirement
from mellea.core.base import GenerateType
from mellea.core.requirement import ValidationResult
from mellea.stdlib.context import SimpleContext
from mellea.stdlib.streaming import stream


class QueueBackend(Backend):
    """Feeds a thunk's queue from an async generator, as mellea's own backends do."""

    def __init__(self, source):
        self._source = source
        self._model_id = "bench"
        self._provider = "bench"
        self.read = 0
        self.closed_at = None

    async def _generate_from_context(
        self, action, ctx, *, format=None, model_options=None, tool_calls=False
    ):
        thunk = ModelOutputThunk(value=None)
        thunk._call.action = action
        thunk._call.model_options = model_options or {}
        thunk._gen.generate_type = GenerateType.ASYNC

        async def process(mot, piece):
            mot._underlying_value = (mot._underlying_value or "") + piece

        async def post_process(mot):
            mot.generation.model = "bench"

        async def feed():
            try:
                async for token in self._source():
                    self.read += 1
                    await thunk._gen.queue.put(token)
                await thunk._gen.queue.put(None)
            finally:
                self.closed_at = time.perf_counter()

        thunk._gen.process = process
        thunk._gen.post_process = post_process
        thunk._gen.generate = asyncio.create_task(feed())
        return thunk, ctx.add(action).add(thunk)

    async def _generate_from_raw(self, *args, **kwargs):
        raise NotImplementedError


class Passing(Requirement):
    """Passes every chunk."""

    async def _stream_validate(self, chunk, *, backend, ctx):
        return PartialValidationResult("pass")

    async def validate(self, backend, ctx, *, format=None, model_options=None):
        return ValidationResult(True)


class FailsAtOnce(Passing):
    """Fails the first chunk."""

    failed_at = 0.0

    async def _stream_validate(self, chunk, *, backend, ctx):
        type(self).failed_at = time.perf_counter()
        return PartialValidationResult("fail")


class Slow(Passing):
    """Takes its time over every chunk."""

    def __init__(self, seconds):
        super().__init__("slow")
        self._seconds = seconds

    async def _stream_validate(self, chunk, *, backend, ctx):
        await asyncio.sleep(self._seconds)
        return PartialValidationResult("pass")


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


def endless(tokens):
    """A source without a sentence boundary."""

    async def source():
        for _ in range(tokens):
            yield "word "

    return source


async def timed(source, requirements):
    """Seconds for one stream, consumed as events."""
    began = time.perf_counter()
    handle = await stream(
        CBlock("go"),
        QueueBackend(source),
        SimpleContext(),
        chunking="sentence",
        requirements=requirements,
        as_events=True,
    )
    async with handle as events:
        async for _ in events:
            pass
    return time.perf_counter() - began


async def bare(source):
    """Seconds for a plain `async for` over the source."""
    began = time.perf_counter()
    async for _ in source():
        pass
    return time.perf_counter() - began


async def token_cost(tokens, repeats):
    source = sentences(tokens // 12, 12)
    judges = [Passing(str(n)) for n in range(4)]
    costs = [await timed(source, judges) - await bare(source) for _ in range(repeats)]
    return min(costs) / tokens * 1e6


async def no_boundary(repeats):
    short, long = [
        min([await timed(endless(tokens), []) for _ in range(repeats)]) / tokens
        for tokens in (5000, 40000)
    ]
    return long / short


async def fail_to_close(repeats):
    delays = []
    for _ in range(repeats):
        backend = QueueBackend(sentences(50, 4, pause=0.01))
        handle = await stream(
            CBlock("go"),
            backend,
            SimpleContext(),
            chunking="sentence",
            requirements=[Slow(1.0), FailsAtOnce("fails")],
        )
        async with handle as chunks:
            async for _ in chunks:
                pass
        delays.append(backend.closed_at - FailsAtOnce.failed_at)
    return min(delays) * 1e3


async def overlapping_judge():
    return await timed(sentences(20, 4, pause=0.06), [Slow(0.2)])


async def many_runs(runs, tokens):
    source = sentences(tokens // 12, 12)
    began = time.perf_counter()
    await asyncio.gather(*(timed(source, [Passing("one")]) for _ in range(runs)))
    return (time.perf_counter() - began) / (runs * tokens) * 1e6


async def main(row, arguments):
    print(json.dumps(await globals()[row](*arguments)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
