"""Tests of `streamval.batch.pace`, in virtual time."""

import asyncio

import pytest

from streamval.batch.pace import CALM, LONGEST_PAUSE, LOWEST, Pace
from streamval.testing import virtual_time

TICK = 1e-6


def run_virtually(coroutine):
    return virtual_time.run_virtually(coroutine, TICK)


class Provider:
    """Answers so many requests in each second, and refuses more."""

    def __init__(self, rate, retry_after=None):
        self.rate, self.retry_after = rate, retry_after
        self.seconds, self.refused, self.answered = {}, 0, 0

    def ask(self):
        second = int(asyncio.get_running_loop().time())
        self.seconds[second] = self.seconds.get(second, 0) + 1
        if self.seconds[second] > self.rate:
            self.refused += 1
            return False
        self.answered += 1
        return True


async def job(provider, count, at_once=64, pace=None):
    """So many rows, each asked until it is answered."""
    told = []
    pace = pace or Pace(told.append)
    left = iter(range(count))

    async def worker():
        for _ in left:
            while True:
                await pace.turn()
                answered = provider.ask()
                await asyncio.sleep(0.1)
                if answered:
                    pace.went_well()
                    break
                pace.slow_down("too many", provider.retry_after)

    await asyncio.gather(*(worker() for _ in range(at_once)))
    return told


def test_without_a_word_of_the_provider_nothing_is_slowed():
    provider = Provider(10**9)
    told, seconds = run_virtually(job(provider, 1000))
    assert (told, provider.answered) == ([], 1000)
    assert seconds < 2


@pytest.mark.parametrize("retry_after", [None, 3.0])
def test_a_refusal_slows_all_rows_down_and_not_only_one(retry_after):
    provider = Provider(20, retry_after)
    told, seconds = run_virtually(job(provider, 600))
    assert provider.answered == 600
    # As fast as the provider allows would be 30 seconds; refused are few beside what is answered.
    assert seconds < 150
    assert provider.refused < 200
    assert all(slowed.reason == "too many" for slowed in told)
    first = told[0]
    assert first.pause == (retry_after or 1.0)
    asked = [second for second in provider.seconds if 0 < second < first.pause]
    assert asked == []  # nobody asks in the pause


def test_rows_that_were_under_way_are_one_slowing_down():
    provider = Provider(0, 2.0)

    async def burst():
        pace = Pace(told.append)
        for _ in range(50):
            await pace.turn()
        for _ in range(50):
            pace.slow_down("too many", 2.0)

    told = []
    run_virtually(burst())
    assert [(slowed.pause, slowed.rate) for slowed in told] == [(2.0, 25.0)]
    assert provider.rate == 0


def test_it_speeds_up_again():
    async def recovering():
        pace = Pace(told.append)
        for _ in range(64):
            await pace.turn()
        pace.slow_down("too many", 1.0)
        loop, begun = asyncio.get_running_loop(), []
        while len(begun) < 4000:
            await pace.turn()
            begun.append(loop.time())
            pace.went_well()
        return begun

    told = []
    begun, _ = run_virtually(recovering())
    first = sum(1 for moment in begun if moment < 1 + CALM)
    last = sum(1 for moment in begun if moment > begun[-1] - CALM)
    assert abs(first - 32 * CALM) < 5
    assert last > 1.5 * first


@pytest.mark.parametrize(
    ("said", "waited"),
    [(1e9, LONGEST_PAUSE), (0.0, 0.0), (None, 1.0), (float("nan"), 1.0), (-5.0, 1.0)],
)
def test_a_provider_is_believed_within_reason(said, waited):
    told = []

    async def once():
        pace = Pace(told.append)
        pace.slow_down("too many", said)
        await pace.turn()

    _, seconds = run_virtually(once())
    assert told[0].pause == pytest.approx(waited)
    assert told[0].rate >= LOWEST
    assert seconds >= waited


@pytest.mark.parametrize("paused", [True, False])
def test_once_it_is_stopped_nobody_waits(paused):
    async def stopped():
        pace = Pace()
        pace.slow_down("too many", 300.0 if paused else 0.0)
        waiting = [asyncio.ensure_future(pace.turn()) for _ in range(5)]
        await asyncio.sleep(0.001)
        pace.stop()
        return await asyncio.gather(*waiting), await pace.turn()

    (turns, later), seconds = run_virtually(stopped())
    assert seconds < 1
    assert turns.count(False) == (5 if paused else 4)  # one had begun
    assert later is False
