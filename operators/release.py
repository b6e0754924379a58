"""`release`: checks in, the chunks that may go to the consumer out."""

from __future__ import annotations

from collections.abc import Callable

from reactivex import Observable

from streamval.operators.stateful import stateful
from streamval.types.chunks import Chunk
from streamval.validation.release import ReleaseOrder
from streamval.validation.verdicts import Check


def release() -> Callable[[Observable[Check]], Observable[Chunk]]:
    """Let chunks through that did not fail, in order, honouring `hold`.

    A requirement with `hold=True` keeps an unknown chunk, and all after it, until a later pass
    covers them or the final validation (a check whose chunk is `None`) passes. Chunks that are still held
    when the source completes are not released.

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

    def start(emit: Callable[[Chunk], None]) -> Callable[[Check], None]:
        take = ReleaseOrder().check

        def on_next(check: Check) -> None:
            for chunk in take(check):
                emit(chunk)

        return on_next

    return stateful(start)
