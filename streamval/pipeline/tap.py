"""`tap`: look at what passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from reactivex import Observable
from reactivex.disposable import SerialDisposable

if TYPE_CHECKING:
    from collections.abc import Callable

    from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase

T = TypeVar("T")


def tap(
    look: Callable[[T], None], *, then: Callable[[], Observable[T] | None] | None = None
) -> Callable[[Observable[T]], Observable[T]]:
    """An operator: look at each item before it goes on; after the last one, go on with `then`.

    `ops.do_action` and `ops.concat` do the same. But `concat` leaves all that it is made of to the
    garbage collector.
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
