"""A pipeline does what the operators do that it is made of, whatever the verdicts and their timing."""

import asyncio
import random

import pytest
import reactivex

import streamval as sv
from streamval import bridge
from streamval.operators import cancel_on_fail, chunk, fan_out, merge_tri_state, release
from tests.support.sources import Judge

WORDS = [f"word{n} " for n in range(12)]


class Source(sv.Backend):
    """Gives a turn of the loop to others before some of its words."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.read = self.closed = 0

    async def stream(self, request=None):
        try:
            for word in WORDS:
                if self.dice.random() < 0.3:
                    await asyncio.sleep(0)
                self.read += 1
                yield word
        finally:
            self.closed += 1


def requirements(seed):
    dice = random.Random(seed)

    def verdict_of(lane):
        verdicts = {
            word.strip(): dice.choices(["pass", "unknown", "fail"], [8, 3, 0.6])[0]
            for word in WORDS
        }
        late = {word.strip(): dice.randrange(4) for word in WORDS}

        async def verdict(text):
            for _ in range(late[text] * lane):
                await asyncio.sleep(0)
            return verdicts[text]

        return verdict

    return [
        Judge(verdict_of(lane), f"lane {lane}", hold=lane == 1, max_concurrency=lane + 1)
        for lane in range(3)
    ]


@pytest.mark.parametrize("seed", range(40))
async def test_the_same_checks_and_chunks(seed):
    source, checks = Source(seed), []
    composed = bridge.from_async_iterable(source.stream).pipe(
        chunk("word"), cancel_on_fail(fan_out(requirements(seed))), merge_tri_state()
    )
    async with bridge.Subscription(composed, checks.append) as subscription:
        await subscription.completed()
    delivered = []
    async with bridge.Subscription(
        reactivex.of(*checks).pipe(release()), delivered.append
    ) as subscription:
        await subscription.completed()

    backend, events = Source(seed), []
    run = sv.Pipeline(backend, requirements=requirements(seed), chunking="word").start("go")
    run.subscribe(events.append)
    result = await run
    quick = [e for e in events if isinstance(e, sv.QuickCheckEvent)]
    streamed = next(
        (n for n, e in enumerate(events) if isinstance(e, sv.StreamingDoneEvent)), len(events)
    )
    chunks = [e.chunk() for e in events[:streamed] if isinstance(e, sv.ChunkEvent)]
    assert [(e.chunk_index, e.verdict) for e in quick] == [
        (check.chunk.index, check.success) for check in checks
    ]
    assert chunks == delivered
    assert backend.read == source.read
    assert backend.closed == source.closed == 1
    assert result.success == all(check.success != "fail" for check in checks)
