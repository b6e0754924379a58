"""`stateful`: makes an operator from a function that starts its state."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from reactivex import Observable
from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase

from streamval.aio.on_loop import OnLoop, made_behind, subscribe_directly
from streamval.aio.pump import Receiver
from streamval.errors import UsageError

A = TypeVar("A")
B = TypeVar("B")


def stateful(
    start: Callable[
        [Callable[[B], None]], Callable[[A], None] | tuple[Callable[[A], None], Callable[[], None]]
    ],
) -> Callable[[Observable[A]], Observable[B]]:
    """Make an operator whose state is new for each subscription.

    Args:
        start: Called at each subscription with a function that emits an item. Returns a function
            that takes each item of the source; or two functions, the second called when the source
            completes, before the operator does.

    Returns:
        An operator. Errors of the source pass through. An exception in these functions becomes an
        error of the source's subscription, as with any observer.

    Example:
        >>> import reactivex
        >>> def running_total():
        ...     def start(emit):
        ...         total = 0
        ...         def add(number):
        ...             nonlocal total
        ...             total += number
        ...             emit(total)
        ...         return add
        ...     return stateful(start)
        >>> _ = reactivex.of(1, 2, 3).pipe(running_total()).subscribe(print)
        1
        3
        6
    """
    return lambda source: OnLoop(partial(_subscribe, start, source.subscribe))


def passing_on(
    start: Callable[[Callable[[B], None]], Any],
) -> Callable[[Observable[A]], Observable[B]]:
    """Make an operator as `stateful` does, of a function that emits only while it takes an item or the end.

    So behind a `Direct` source it is `Direct` too.
    """
    return lambda source: made_behind(
        source, partial(_subscribe, start, partial(subscribe_directly, source))
    )


def _subscribe(
    start: Callable[[Callable[[Any], None]], Any],
    subscribe: Callable[..., DisposableBase],
    observer: ObserverBase[Any],
    scheduler: SchedulerBase | None = None,
) -> DisposableBase:
    started = start(observer.on_next)
    if not callable(started) and not (isinstance(started, tuple) and len(started) == 2):
        raise UsageError(
            f"the start of stateful returned {started!r}; return the function that takes "
            "each item, or two functions: for the items and for the end"
        )
    if not isinstance(started, tuple):
        take = Receiver(started, observer.on_error, observer.on_completed)
        return subscribe(take, scheduler=scheduler)
    on_next, finish = started

    def on_completed() -> None:
        finish()
        observer.on_completed()

    take = Receiver(on_next, observer.on_error, on_completed)
    return subscribe(take, scheduler=scheduler)
