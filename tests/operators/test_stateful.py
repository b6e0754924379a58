"""Tests of `streamval.operators.stateful`."""

import reactivex
from reactivex import operators as ops
from reactivex.testing import ReactiveTest, TestScheduler

from streamval.operators import stateful

on_next, on_completed, on_error = (
    ReactiveTest.on_next,
    ReactiveTest.on_completed,
    ReactiveTest.on_error,
)


def pairs():
    """Emit two items at a time; the last one alone if there is no second."""

    def start(emit):
        waiting = []

        def take(item):
            waiting.append(item)
            if len(waiting) == 2:
                emit(tuple(waiting))
                waiting.clear()

        return take, lambda: emit((waiting[0],)) if waiting else None

    return stateful(start)


def test_each_subscription_has_its_own_state_and_the_end_is_flushed():
    source = reactivex.of(1, 2, 3).pipe(pairs())
    for _ in range(2):
        seen = []
        source.subscribe(seen.append)
        assert seen == [(1, 2), (3,)]


def test_times_errors_and_the_end_are_those_of_the_source():
    scheduler = TestScheduler()
    source = scheduler.create_hot_observable(
        on_next(210, "a"), on_next(220, "b"), on_next(230, "c"), on_completed(240)
    )
    result = scheduler.start(lambda: source.pipe(pairs()))
    assert result.messages == [on_next(220, ("a", "b")), on_next(240, ("c",)), on_completed(240)]
    boom = OSError("broken")
    scheduler = TestScheduler()
    source = scheduler.create_hot_observable(on_next(210, "a"), on_error(220, boom))
    result = scheduler.start(lambda: source.pipe(pairs()))
    assert result.messages == [on_error(220, boom)]  # a fragment is dropped


def test_it_is_an_operator_like_any_other():
    seen = []
    reactivex.of(1, 2, 3, 4).pipe(ops.take(2), pairs(), ops.map(sum)).subscribe(seen.append)
    assert seen == [3]
