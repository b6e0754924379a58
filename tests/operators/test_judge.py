"""`judge` is `fan_out`, `cancel_on_fail` and `merge_tri_state` in one: the same, whatever the verdicts."""

import asyncio
import random

import pytest

from streamval import bridge
from streamval.chunks import Chunk
from streamval.errors import UsageError
from streamval.operators import cancel_on_fail, fan_out, judge, merge_tri_state
from tests.support.sources import Judge


def chunks(count):
    return [Chunk(f"chunk {n}", n, 10 * n, 10 * n + 7, " " if n else "") for n in range(count)]


class Source:
    """Gives a turn of the loop to others before some of its chunks."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.read = self.closed = 0

    async def __call__(self):
        try:
            for chunk in chunks(12):
                if self.dice.random() < 0.3:
                    await asyncio.sleep(0)
                self.read += 1
                yield chunk
        finally:
            self.closed += 1


def requirements(seed):
    dice = random.Random(seed)

    def verdict_of(lane):
        verdicts = {
            f"chunk {n}": dice.choices(["pass", "unknown", "fail"], [8, 3, 0.6])[0]
            for n in range(12)
        }
        late = {f"chunk {n}": dice.randrange(4) for n in range(12)}

        async def verdict(text):
            for _ in range(late[text] * lane):
                await asyncio.sleep(0)
            return verdicts[text]

        return verdict

    return [
        Judge(verdict_of(lane), f"lane {lane}", hold=lane == 1, max_concurrency=lane + 1)
        for lane in range(3)
    ]


async def checks_of(seed, operators):
    source = Source(seed)
    observable = bridge.from_async_iterable(source).pipe(*operators)
    found = [check async for check in bridge.iterate(observable)]
    assert source.closed == 1
    return [(c.chunk.index, c.success, c.covered) for c in found], source.read


@pytest.mark.parametrize("seed", range(40))
async def test_the_same_checks_as_the_three_composed(seed):
    three = [cancel_on_fail(fan_out(requirements(seed))), merge_tri_state()]
    composed, read = await checks_of(seed, three)
    in_one, read_in_one = await checks_of(seed, [judge(requirements(seed))])
    assert in_one == composed
    assert read_in_one == read


async def test_the_source_is_closed_before_the_failed_check_goes_on():
    source = Source(0)
    judged = bridge.from_async_iterable(source).pipe(
        judge([Judge(lambda text: "fail" if text == "chunk 2" else "pass")])
    )
    seen = []
    async with bridge.Subscription(judged, lambda c: seen.append((c.success, source.read))) as one:
        await one.completed()
    assert [success for success, _ in seen] == ["pass", "pass", "fail"]
    assert (source.read, source.closed) == (3, 1)


async def test_without_requirements_nothing_is_known_of_any_chunk():
    found, _ = await checks_of(1, [judge([])])
    assert [success for _, success, _ in found] == ["unknown"] * 12


def test_what_is_no_requirement_is_refused_at_once():
    with pytest.raises(UsageError):
        judge([7])
    with pytest.raises(UsageError, match="max_pending_chunks"):
        judge([], max_pending_chunks=0)
