"""Tests of `streamval.bridge`."""

import asyncio

import aiostream
import pytest
import reactivex
from reactivex import operators as ops

from streamval import bridge
from tests.support.async_source import Source, collect, turns


async def test_items_cross_in_order_and_each_subscription_reads_anew():
    source = Source(1, 2, 3)
    assert await collect(source) == [1, 2, 3]
    assert await collect(source) == [1, 2, 3]
    assert source.opened == source.closed == 2


async def test_an_error_crosses_unchanged_after_the_items_before_it():
    boom = ValueError("boom")
    source = Source(1, boom)
    seen = []
    with pytest.raises(ValueError, match="boom") as raised:
        async for item in bridge.iterate(bridge.from_async_iterable(source)):
            seen.append(item)
    assert raised.value is boom
    assert seen == [1]
    assert source.closed == 1


async def test_what_an_observer_raises_closes_the_source_and_comes_out_as_the_error():
    source = Source(1, 2, 3)

    def bad(_):
        raise KeyError("observer")

    subscription = bridge.Subscription(bridge.from_async_iterable(source), bad)
    with pytest.raises(KeyError, match="observer"):
        async with subscription:
            await subscription.completed()
    assert (source.read, source.closed) == (1, 1)


async def test_leaving_early_closes_the_source_before_control_returns():
    source = Source(1, 2, 3, hang=True)
    async with bridge.to_stream(bridge.from_async_iterable(source)).stream() as items:
        async for _ in items:
            break
    assert source.closed == 1


async def test_an_operator_that_has_enough_closes_the_source():
    source = Source(1, 2, 3, 4, hang=True)
    observable = bridge.from_async_iterable(source).pipe(ops.take(2))
    assert [item async for item in bridge.iterate(observable)] == [1, 2]
    assert (source.read, source.closed) == (2, 1)


async def test_a_plain_subscription_is_closed_by_dispose():
    source = Source(1, hang=True)
    seen = []
    disposable = bridge.from_async_iterable(source).subscribe(seen.append)
    await asyncio.sleep(0)
    disposable.dispose()
    disposable.dispose()
    while not source.closed:
        await asyncio.sleep(0)
    assert seen == [1]


async def test_disposed_before_it_began_a_source_is_never_opened():
    source = Source(1)
    bridge.from_async_iterable(source).subscribe(print).dispose()
    await asyncio.sleep(0)
    assert source.opened == 0


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_cancellation_closes_the_source_first_however_often_it_comes(times):
    closing = asyncio.Event()
    source = Source(1, hang=True, closing=closing)
    errors = []

    async def read():
        observable = bridge.from_async_iterable(source).pipe(ops.do_action(on_error=errors.append))
        async for _ in bridge.iterate(observable):
            pass

    task = asyncio.create_task(read())
    while not source.read:
        await asyncio.sleep(0)
    for _ in range(times):
        task.cancel()
        await turns(5)
    assert source.closed == 0  # still cleaning up, and not interrupted in it
    closing.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert source.closed == 1
    assert errors == []  # a cancellation is no error


async def test_push_to_pull_to_push():
    source = Source(1, 2, 3)
    there = bridge.from_async_iterable(source).pipe(ops.map(lambda n: n * 10))
    back = bridge.from_async_iterable(lambda: bridge.iterate(there), read=lambda n: n + 1)
    assert [item async for item in bridge.iterate(back)] == [11, 21, 31]
    assert source.closed == 1


async def test_what_is_read_is_pushed_and_none_is_not():
    source = Source(0, 1, 2)
    made = bridge.from_async_iterable(source, read=lambda n: n * 10 if n else None)
    assert [item async for item in bridge.iterate(made)] == [10, 20]


async def test_what_reading_raises_closes_the_source_and_is_the_error():
    source = Source(1, 2)

    def raises(_):
        raise LookupError("read")

    with pytest.raises(LookupError, match="read"):
        async for _ in bridge.iterate(bridge.from_async_iterable(source, read=raises)):
            pass
    assert source.closed == 1


async def test_an_observable_of_reactivex_alone_can_be_iterated():
    assert [item async for item in bridge.iterate(reactivex.of("a", "b"))] == ["a", "b"]


async def test_who_gives_up_waiting_for_a_subscription_does_not_end_it():
    gate = asyncio.Event()

    async def slow():
        for number in range(3):
            yield number
        await gate.wait()
        raise LookupError("the end")

    seen = []
    async with bridge.Subscription(bridge.from_async_iterable(slow), seen.append) as subscription:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(subscription.completed(), 0.005)
        assert not subscription.ended
        gate.set()
        with pytest.raises(LookupError, match="the end"):
            await subscription.completed()
    assert seen == [0, 1, 2]


@pytest.mark.filterwarnings("error")
async def test_streams_and_observables_are_sources_like_any_async_iterable():
    for made in (aiostream.stream.range(3), reactivex.of(0, 1, 2)):
        assert await collect(lambda made=made: made) == [0, 1, 2]
