"""`release`: checks in, the chunks that may go to the consumer out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from reactivex import Observable
from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase

from streamval.aio.on_loop import OnLoop
from streamval.errors import RequirementsNotMetError, UsageError
from streamval.types.chunks import Chunk
from streamval.validation.release import ReleaseOrder
from streamval.validation.verdicts import Check


def release(
    on_fail: Literal["complete", "error"] = "complete",
) -> Callable[[Observable[Check]], Observable[Chunk]]:
    """Let chunks through that did not fail, in order, honouring `hold`.

    A requirement with `hold=True` keeps an unknown chunk, and all after it, until a later pass
    covers them or the final validation (a check whose chunk is `None`) passes. Chunks that are still held
    when the source completes are not released.

    Args:
        on_fail: What a failed check does: `"complete"` lets the observable complete as after a success;
            `"error"` ends it with a `RequirementsNotMetError`, so that `ops.retry`, `ops.catch` and
            `ops.materialize` work on it.

    Returns:
        An operator; errors and completion pass through.

    Raises:
        UsageError: If `on_fail` is neither.

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
    if on_fail not in ("complete", "error"):
        raise UsageError(f"on_fail must be 'complete' or 'error', not {on_fail!r}")

    def operator(source: Observable[Check]) -> Observable[Chunk]:
        def subscribe(
            observer: ObserverBase[Chunk], scheduler: SchedulerBase | None = None
        ) -> DisposableBase:
            take, emit = ReleaseOrder().check, observer.on_next

            def on_next(check: Check) -> None:
                for chunk in take(check):
                    emit(chunk)
                if check.success == "fail" and on_fail == "error":
                    observer.on_error(RequirementsNotMetError(check.failures))

            return source.subscribe(
                on_next, observer.on_error, observer.on_completed, scheduler=scheduler
            )

        return OnLoop(subscribe)

    return operator
