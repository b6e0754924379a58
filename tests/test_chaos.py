"""Thousands of short runs, each with faults drawn at random.

Whatever goes wrong, wherever: exactly one CompletedEvent and it is last, every source that was
opened is closed, no task is left, no warning (warnings are errors here, and `make test` runs with
`-X dev`). A failing case prints its seed; `CHAOS_SEED=… pytest tests/test_chaos.py` repeats it.
"""

from __future__ import annotations

import asyncio
import os
import random

import pytest

import streamval as sv

RUNS = 3000
BATCH = 250


class Fault(Exception):
    """What the chaos raises."""


class Source(sv.Backend):
    """Says sentences, and fails as the dice say."""

    model = "chaos"

    def __init__(self, dice):
        self.dice = dice
        self.supports_prefix = dice.random() < 0.5
        self.opened = self.closed = 0
        self.cancelled = self.cut_short = False
        self.count = dice.randrange(0, 12)
        self.raises_at = dice.randrange(0, 14) if dice.random() < 0.25 else None
        self.hangs_at = dice.randrange(0, 14) if dice.random() < 0.2 else None
        self.raises_on_close = dice.random() < 0.05
        self.strange = dice.choice([None, None, None, b"bytes", 7]) if dice.random() < 0.1 else ""

    async def stream(self, request):
        self.opened += 1
        try:
            for n in range(self.count):
                await nap(self.dice)
                if n == self.raises_at:
                    raise Fault(f"source at {n}")
                if n == self.hangs_at:
                    await asyncio.Event().wait()
                if n == 3 and self.strange != "":
                    yield self.strange
                self.cancelled = False
                yield self.dice.choice(
                    ["word ", "Word. ", f"Sentence {n}. ", "\n\n", "a", "One. Two. "]
                )
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        finally:
            try:
                await nap(self.dice)
            except asyncio.CancelledError:
                self.cut_short = self.cancelled  # cancelled again, in the middle of its clean-up
                raise
            finally:
                self.closed += 1
            if self.raises_on_close:
                raise Fault("closing")


class Judge(sv.Requirement):
    """Passes, fails, raises, waits or hangs as the dice say."""

    def __init__(self, dice):
        super().__init__(
            "chaos",
            chunking=dice.choice([None, None, None, "word", "paragraph"]),
            max_concurrency=dice.choice([1, 1, 3]),
            timeout=dice.choice([None, None, 0.002]),
            on_error=dice.choice(["raise", "fail", "pass"]),
            hold=dice.random() < 0.2,
        )
        self.dice = dice
        self.hangs = self.timeout is not None and dice.random() < 0.2
        self.raises = dice.choice([0, 0, 0.1])
        self.fails = dice.choice([0, 0.05, 0.3])

    async def stream_validate(self, chunk, *, backend, ctx):
        await nap(self.dice)
        if self.hangs and self.dice.random() < 0.3:
            await asyncio.Event().wait()
        self.roll()
        if self.dice.random() < self.fails:
            return sv.PartialValidationResult("fail", reason="dice")
        return sv.PartialValidationResult(self.dice.choice(["pass", "unknown"]))

    async def validate(self, backend, ctx, **_):
        await nap(self.dice)
        self.roll()
        return sv.ValidationResult(self.dice.random() < 0.8)

    def roll(self):
        if self.dice.random() < self.raises:
            raise Fault("judge")


async def nap(dice):
    """Nothing, a turn of the loop or two, or a moment."""
    for _ in range(dice.choice([0, 0, 1, 2])):
        await asyncio.sleep(0)
    if dice.random() < 0.02:
        await asyncio.sleep(0.001)


def pipeline_of(dice):
    source = Source(dice)
    retry = None
    if dice.random() < 0.5:
        modes = [None, "restart", "continue"] if source.supports_prefix else [None, "restart"]
        retry = sv.Repair(loop_budget=dice.randint(1, 3), mode=dice.choice(modes))
    return source, sv.Pipeline(
        source,
        requirements=[Judge(dice) for _ in range(dice.randrange(0, 4))],
        chunking=dice.choice([None, "word", "sentence", "paragraph", "line", "markdown"]),
        retry=retry,
        max_pending_chunks=dice.choice([1, 1, 2, 64]),
        emit_tokens=dice.random() < 0.5,
        stall_timeout=dice.choice([0.02, 0.05]),
        chunk_operators=[sv.operators.rewrite(raising(dice))] if dice.random() < 0.1 else (),
    )


def raising(dice):
    def fn(text):
        if dice.random() < 0.1:
            raise Fault("rewrite")
        return text.upper()

    return fn


async def one_run(seed):
    dice = random.Random(seed)
    source, pipeline = pipeline_of(dice)
    run = pipeline.start("go")
    events = []
    run.subscribe(events.append)
    if dice.random() < 0.3:
        run.subscribe(raising_subscriber(dice))
    if dice.random() < 0.3:
        run.subscribe(slow_subscriber(dice), overflow=dice.choice(["hold", "drop"]))
    driver = dice.choice(["await", "iterate", "break", "chunks", "cancel() from a subscriber"])
    if driver.startswith("cancel"):
        steps = dice.randrange(1, 20)
        run.subscribe(lambda _: run.cancel() if len(events) == steps else None)

    async def drive():
        if driver in ("iterate", "break"):
            async with run:
                async for _ in run:
                    await nap(dice)
                    if driver == "break" and dice.random() < 0.2:
                        return
        elif driver == "chunks":
            async with run:
                async for _ in run.chunks():
                    await nap(dice)
        else:
            await run

    task = asyncio.create_task(drive())
    if dice.random() < 0.4:  # cancelled at a random step, perhaps again while it cleans up
        for _ in range(dice.choice([1, 1, 2, 3])):
            for _ in range(dice.randrange(0, 60)):
                await asyncio.sleep(0)
            task.cancel()
    _, hanging = await asyncio.wait([task], timeout=10)
    assert not hanging, (seed, driver, "hangs", task.get_stack())
    if not task.cancelled():
        assert isinstance(task.exception(), (Fault, sv.StreamvalError, type(None))), seed
    completed = [event for event in events if event.type == "completed"]
    # A driver that was cancelled before its first step never started the run.
    assert len(completed) == (1 if events else 0), (seed, driver, events)
    assert not events or events[-1].type == "completed", (seed, driver, events)
    assert source.opened == source.closed, (seed, driver)
    assert not source.cut_short, (seed, driver)
    if completed:
        whole = completed[0].full_text
        assert whole.startswith(run.text), (seed, driver)
        assert not whole[len(run.text) :].strip(), (seed, driver)


def raising_subscriber(dice):
    def subscriber(_):
        if dice.random() < 0.2:
            raise Fault("subscriber")

    return subscriber


def slow_subscriber(dice):
    async def subscriber(_):
        await nap(dice)
        if dice.random() < 0.1:
            raise Fault("async subscriber")

    return subscriber


@pytest.mark.parametrize("batch", range(RUNS // BATCH))
@pytest.mark.slow
async def test_chaos(batch, reported):
    chosen = os.environ.get("CHAOS_SEED")
    seeds = [int(chosen)] if chosen else range(batch * BATCH, (batch + 1) * BATCH)
    for seed in seeds:
        before = asyncio.all_tasks()
        await one_run(seed)
        for _ in range(10):
            await asyncio.sleep(0)
        left = asyncio.all_tasks() - before
        assert not left, (seed, left)
    strange = [
        context
        for context in reported
        if not isinstance(context.get("exception"), Fault)
        and not context["message"].endswith("times in all")
    ]
    assert not strange, strange
