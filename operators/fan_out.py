"""`fan_out`: each chunk to every requirement, verdicts as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reactivex import Observable
from reactivex.disposable import CompositeDisposable, Disposable

from streamval.fan import MAX_PENDING_CHUNKS, Fan, FanOptions
from streamval.requirements.base import as_requirements
from streamval.scope import scope

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase

    from streamval.backends.base import Backend
    from streamval.checkpoints import Checkpoints
    from streamval.chunkers.base import Chunking
    from streamval.chunks import Chunk
    from streamval.context import Context
    from streamval.requirements.base import Requirement
    from streamval.verdicts import Verdict


def fan_out(
    requirements: Sequence[Requirement | str],
    *,
    backend: Backend | None = None,
    ctx: Context | None = None,
    max_pending_chunks: int = MAX_PENDING_CHUNKS,
    chunking: Chunking = None,
    index: int = 0,
    start: int = 0,
    checkpoints: Checkpoints | None = None,
    on_start: Callable[[tuple[Requirement, ...]], None] | None = None,
) -> Callable[[Observable[Chunk]], Observable[Verdict]]:
    """Send each chunk to a clone of every requirement, all of them side by side.

    The clones are made when somebody subscribes, before the source is touched. Within a lane
    verdicts come in chunk order (unless its `max_concurrency` is above 1); between lanes they
    come as they are ready. A failed verdict stops the lanes for that chunk and later ones, while
    earlier chunks are judged to their end.

    Args:
        requirements: Who judges.
        backend: Handed to each `stream_validate`.
        ctx: Handed to each `stream_validate`.
        max_pending_chunks: With that many chunks waiting for verdicts, the source is held back
            (where it comes through the bridge).
        chunking: How the chunks that arrive were cut, so that a lane with a finer chunking of
            its own ends a piece wherever a chunk ends.
        index: Index of the first chunk, where the chunks go on from earlier ones.
        start: Offset of the first character, likewise.
        checkpoints: Where the lanes keep, and take up, what they have judged so far.
        on_start: Called with the clones, once they are made.

    Returns:
        An operator. It completes when the source has and all verdicts are in. What a validator
        raises becomes an error, unless its `on_error` says otherwise.

    Raises:
        UsageError: If something in `requirements` is none.

    Example:
        >>> import asyncio, reactivex
        >>> from streamval.bridge import iterate
        >>> from streamval.chunks import Chunk
        >>> from streamval.requirements import stream_check
        >>> short = stream_check(lambda text: len(text) < 6, "short")
        >>> chunks = reactivex.of(Chunk("Hello.", 0, 0, 6), Chunk("Hi!", 1, 7, 10, " "))
        >>> async def main():
        ...     async for verdict in iterate(chunks.pipe(fan_out([short]))):
        ...         print(verdict.chunk.text, verdict.result.success)
        >>> asyncio.run(main())
        Hello. fail
    """
    options = FanOptions(
        as_requirements(requirements),
        backend,
        ctx,
        max_pending_chunks,
        chunking,
        index,
        start,
        checkpoints,
        on_start,
    )

    def operator(source: Observable[Chunk]) -> Observable[Verdict]:
        def subscribe(
            observer: ObserverBase[Verdict], scheduler: SchedulerBase | None = None
        ) -> DisposableBase:
            with scope() as current:
                fan = Fan(
                    options,
                    current,
                    observer.on_error,
                    observer.on_completed,
                    on_verdict=observer.on_next,
                )
                # Whoever pushes may do so from elsewhere; what is subscribed to for a verdict is
                # this subscription's all the same.
                upstream = source.subscribe(
                    current.inside(fan.on_chunk),
                    fan.on_error,
                    current.inside(fan.on_completed),
                    scheduler=scheduler,
                )
            return CompositeDisposable(upstream, Disposable(fan.stop))

        return Observable(subscribe)

    return operator
