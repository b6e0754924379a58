"""`tap`: calls a function with each item."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from reactivex import Observable
from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase

T = TypeVar("T")


def tap(look: Callable[[T], None]) -> Callable[[Observable[T]], Observable[T]]:
    """Return an operator that calls `look` with each item before it passes the item on.

    As `ops.do_action`, whose cost a token would feel.
    """

    def operator(source: Observable[T]) -> Observable[T]:
        def subscribe(
            observer: ObserverBase[T], scheduler: SchedulerBase | None = None
        ) -> DisposableBase:
            forward = observer.on_next

            def on_next(item: T) -> None:
                look(item)
                forward(item)

            return source.subscribe(
                on_next, observer.on_error, observer.on_completed, scheduler=scheduler
            )

        return Observable(subscribe)

    return operator
