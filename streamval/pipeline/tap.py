"""`tap`: calls a function with each item."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from reactivex import Observable
from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase
from reactivex.disposable import SerialDisposable

T = TypeVar("T")


def tap(
    look: Callable[[T], None], *, then: Callable[[], Observable[T] | None] | None = None
) -> Callable[[Observable[T]], Observable[T]]:
    """Return an operator that calls `look` with each item before it passes the item on.

    `ops.do_action` and `ops.concat` do the same, but `concat` leaves its objects to the garbage
    collector.

    Args:
        look: Called with each item.
        then: Returns the observable that follows at the end, if any.
    """

    def operator(source: Observable[T]) -> Observable[T]:
        def subscribe(
            observer: ObserverBase[T], scheduler: SchedulerBase | None = None
        ) -> DisposableBase:
            current, forward = SerialDisposable(), observer.on_next

            def on_next(item: T) -> None:
                look(item)
                forward(item)

            def on_completed() -> None:
                following = None if then is None else then()
                if following is None:
                    observer.on_completed()
                else:
                    current.disposable = following.subscribe(
                        on_next, observer.on_error, observer.on_completed, scheduler=scheduler
                    )

            current.disposable = source.subscribe(
                on_next, observer.on_error, on_completed, scheduler=scheduler
            )
            return current

        return Observable(subscribe)

    return operator
