"""`release`: checks in, the chunks that may go to the consumer out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reactivex import Observable

from streamval.validation.release import ReleaseOrder

if TYPE_CHECKING:
    from collections.abc import Callable

    from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase

    from streamval.types.chunks import Chunk
    from streamval.validation.verdicts import Check


def release() -> Callable[[Observable[Check]], Observable[Chunk]]:
    """Let chunks through that did not fail, in order, honouring `hold`.

    A requirement with `hold=True` keeps an unknown chunk, and all after it, until a later pass
    covers them or the final validation (a check whose chunk is `None`) passes. What is still held
    when the source completes is not released.

    Returns:
        An operator; errors and completion pass through.

    Example:
        >>> import reactivex
        >>> from streamval.types.chunks import Chunk
        >>> from streamval.validation.verdicts import Check
        >>> checks = reactivex.of(
        ...     Check(Chunk("One.", 0, 0, 4), "unknown", covered=0),
        ...     Check(Chunk("Two.", 1, 5, 9, " "), "pass", covered=9),
        ... )
        >>> _ = checks.pipe(release()).subscribe(lambda chunk: print(chunk.text))
        One.
        Two.
    """

    def operator(source: Observable[Check]) -> Observable[Chunk]:
        def subscribe(
            observer: ObserverBase[Chunk], scheduler: SchedulerBase | None = None
        ) -> DisposableBase:
            order = ReleaseOrder()

            def on_next(check: Check) -> None:
                for chunk in order.check(check):
                    observer.on_next(chunk)

            return source.subscribe(
                on_next, observer.on_error, observer.on_completed, scheduler=scheduler
            )

        return Observable(subscribe)

    return operator
