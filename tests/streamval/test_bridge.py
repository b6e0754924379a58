"""The bridge: {completes, raises, left early, cancelled, cancelled twice} against {source, observer}."""

import asyncio
from contextlib import suppress

import pytest
import reactivex
from reactivex import operators as ops

from streamval import bridge, pump
from streamval.errors import RunError, StallError, StreamBrokenError
from streamval.scope import CLOSING_GRACE, side_by_side
from tests.support.virtual_time import run_virtually


class Source:
    """An async generator that says how far it got and whether it was closed."""

    def __init__(self, *items, hang=False, slow_close=False):
        self.items = items
        self.hang = hang
        self.slow_close = slow_close
        self.opened = self.closed = self.read = 0

    async def __call__(self):
        self.opened += 1
        try:
            for item in self.items:
                if isinstance(item, BaseException):
                    raise item
                self.read += 1
                yield item
            if self.hang:
                await asyncio.Event().wait()
        finally:
            if self.slow_close:
                await asyncio.sleep(0.01)
            self.closed += 1


async def collect(source, **options):
    return [i async for i in bridge.iterate(bridge.from_async_iterable(source, **options))]


# Completes and raises


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
    source = Source(1, 2, 3, slow_close=True)

    def bad(_):
        raise KeyError("observer")

    subscription = bridge.Subscription(bridge.from_async_iterable(source), bad)
    with pytest.raises(KeyError, match="observer"):
        async with subscription:
            await subscription.completed()
    assert (source.read, source.closed) == (1, 1)


async def test_a_source_never_sees_what_an_observer_raises():
    caught = []

    async def source():
        try:
            yield 1
        except KeyError as error:
            caught.append(error)
            raise

    def bad(_):
        raise KeyError

    with pytest.raises(KeyError):
        async with bridge.Subscription(bridge.from_async_iterable(source), bad) as subscription:
            await subscription.completed()
    assert caught == []


# Left early


async def test_leaving_early_closes_the_source_before_control_returns():
    source = Source(1, 2, 3, hang=True, slow_close=True)
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


# Cancelled, once and twice


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_cancellation_closes_the_source_first_however_often_it_comes(times):
    source = Source(1, hang=True, slow_close=True)
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
        await asyncio.sleep(0.001)
    assert source.closed == 0  # still cleaning up, and not interrupted in it
    with pytest.raises(asyncio.CancelledError):
        await task
    assert source.closed == 1
    assert errors == []  # a cancellation is no error


async def test_a_source_cancelled_from_inside_is_an_error_not_a_cancellation():
    async def source():
        yield 1
        raise asyncio.CancelledError

    with pytest.raises(StreamBrokenError, match="from inside"):
        await collect(source)


async def test_an_error_while_closing_is_reported(reported):
    async def source():
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            raise OSError("closing")

    async with bridge.to_stream(bridge.from_async_iterable(source)).stream() as items:
        async for _ in items:
            break
    assert [str(context["exception"]) for context in reported] == ["closing"]


def test_a_source_that_ignores_its_cancellation_does_not_hang_the_close():
    async def stubborn():
        yield 1
        while True:
            try:
                await asyncio.sleep(1000)
                return
            except asyncio.CancelledError:
                pass

    async def main():
        told = []
        asyncio.get_running_loop().set_exception_handler(lambda _, ctx: told.append(ctx["message"]))
        async with bridge.to_stream(bridge.from_async_iterable(stubborn)).stream() as items:
            async for _ in items:
                break
        closed_at = asyncio.get_running_loop().time()
        await asyncio.sleep(1000)
        return told, closed_at

    (told, closed_at), _ = run_virtually(main())
    assert closed_at == CLOSING_GRACE
    assert "ignores its cancellation" in told[0]


# Demand


async def test_a_slow_reader_holds_the_source_back():
    source = Source(*range(100))
    ahead = []
    async with bridge.to_stream(bridge.from_async_iterable(source), buffer=5).stream() as items:
        async for item in items:
            ahead.append(source.read - item)
            await asyncio.sleep(0)
    assert max(ahead) <= 6


async def test_a_source_that_never_waits_lets_others_run():
    turns = 0

    async def other():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    async with bridge.Subscription(
        bridge.from_async_iterable(Source(*range(10_000))), lambda _: None
    ) as subscription:
        await subscription.completed()
    task.cancel()
    assert turns >= 10_000 // pump.FAIR_SHARE


def test_a_stall_is_an_error_and_closes_the_source():
    source = Source(1, hang=True)
    with pytest.raises(StallError, match="3 seconds"):
        run_virtually(collect(source, stall_timeout=3))
    assert source.closed == 1


# Round about


async def test_push_to_pull_to_push():
    source = Source(1, 2, 3)
    there = bridge.from_async_iterable(source).pipe(ops.map(lambda n: n * 10))
    back = bridge.from_async_iterable(lambda: bridge.iterate(there), each=lambda n: [n + 1])
    assert [item async for item in bridge.iterate(back)] == [11, 21, 31]
    assert source.closed == 1


async def test_each_item_makes_any_number_and_the_end_makes_some():
    source = Source(0, 1, 2)
    made = bridge.from_async_iterable(source, each=lambda n: [n] * n, last=lambda: ["last"])
    assert [item async for item in bridge.iterate(made)] == [1, 2, 2, "last"]


@pytest.mark.parametrize("where", ["each", "last"])
async def test_what_makes_items_may_raise(where):
    source = Source(1, 2)

    def raises(*_):
        raise LookupError(where)

    made = bridge.from_async_iterable(
        source, **{"each": lambda n: [n], "last": list, where: raises}
    )
    with pytest.raises(LookupError, match=where):
        async for _ in bridge.iterate(made):
            pass
    assert source.closed == 1


async def test_a_broken_source_and_one_that_is_left_make_no_last_items():
    asked = []
    for source in (Source(1, LookupError("gone")), Source(1, hang=True)):
        made = bridge.from_async_iterable(
            source, each=lambda n: [n], last=lambda: asked.append("last") or []
        )
        with suppress(LookupError):
            async with bridge.to_stream(made).stream() as items:
                async for _ in items:
                    if source.hang:
                        break
    assert asked == []


async def test_an_observable_of_reactivex_alone_can_be_iterated():
    assert [item async for item in bridge.iterate(reactivex.of("a", "b"))] == ["a", "b"]


def test_outside_an_event_loop_the_error_says_what_to_do():
    seen = []
    bridge.from_async_iterable(Source(1)).subscribe(print, seen.append)
    assert isinstance(seen[0], RunError)
    assert "asyncio.run" in str(seen[0])


# side_by_side


async def test_side_by_side_keeps_the_order_and_cancels_the_rest_at_an_error():
    async def after(turns, value):
        for _ in range(turns):
            await asyncio.sleep(0)
        return value

    assert await side_by_side(after(3, "a"), after(1, "b")) == ["a", "b"]
    ended = []

    async def hangs():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def raises():
        await asyncio.sleep(0)
        raise ValueError("one")

    with pytest.raises(ValueError, match="one"):
        await side_by_side(hangs(), raises())
    assert ended == [True]


async def test_who_gives_up_waiting_for_a_subscription_does_not_end_it():
    async def slow():
        for number in range(3):
            yield number
            await asyncio.sleep(0.01)
        raise LookupError("the end")

    seen = []
    async with bridge.Subscription(bridge.from_async_iterable(slow), seen.append) as subscription:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(subscription.completed(), 0.005)
        assert not subscription.ended
        with pytest.raises(LookupError, match="the end"):
            await subscription.completed()
    assert seen == [0, 1, 2]
