"""`fan_out`: each chunk to every requirement, verdicts as they come."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from reactivex import Observable
from reactivex.disposable import CompositeDisposable, Disposable

from streamval.checkpoints import fresh
from streamval.chunkers.base import finer
from streamval.chunks import Chunk
from streamval.errors import UsageError
from streamval.lanes import UNKNOWN, Lane
from streamval.requirements.base import as_requirements
from streamval.scope import running_loop, scope
from streamval.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase

    from streamval.backends.base import Backend
    from streamval.checkpoints import Checkpoints
    from streamval.chunkers.base import Chunking
    from streamval.context import Context
    from streamval.requirements.base import Requirement
    from streamval.results import PartialValidationResult
    from streamval.scope import Demand

MAX_PENDING_CHUNKS = 64


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
    judges = as_requirements(requirements)
    if max_pending_chunks < 1:
        message = f"max_pending_chunks must be at least 1, not {max_pending_chunks}"
        raise UsageError(message)

    def operator(source: Observable[Chunk]) -> Observable[Verdict]:
        def subscribe(
            observer: ObserverBase[Verdict], scheduler: SchedulerBase | None = None
        ) -> DisposableBase:
            with scope() as current:
                fan = _FanOut(observer, current.demand, max_pending_chunks, index, start)
                for position, requirement in enumerate(judges):
                    state = checkpoints.start(position) if checkpoints else None
                    lane = Lane(
                        position,
                        state or fresh(requirement, 0),
                        fan.on_judged,
                        fan.on_error,
                        current,
                        nested=finer(requirement.chunking, chunking),
                        backend=backend,
                        ctx=ctx,
                        checkpoints=checkpoints,
                    )
                    fan.lanes.append(lane)
                if on_start is not None:
                    on_start(tuple(lane.requirement for lane in fan.lanes))
                upstream = source.subscribe(
                    fan.on_chunk, fan.on_error, fan.on_completed, scheduler=scheduler
                )
            return CompositeDisposable(upstream, Disposable(fan.stop))

        return Observable(subscribe)

    return operator


class _FanOut:
    """The lanes of one subscription, and how many verdicts each open chunk still waits for."""

    def __init__(
        self,
        observer: ObserverBase[Verdict],
        demand: Demand,
        max_pending: int,
        index: int,
        start: int,
    ) -> None:
        self.lanes: list[Lane] = []
        # Kept, as asking for it costs a system call on Python 3.11, and is needed for each chunk.
        self._loop = running_loop()
        self._observer = observer
        self._demand = demand
        self._max_pending = max_pending
        self._count = 0
        self._open: dict[int, _Open] = {}
        self._began_at = (index, start)
        self._last: Chunk | None = None
        self._limit: int | None = None
        self._holding = False
        self._source_ended = False

    def on_chunk(self, chunk: Chunk) -> None:
        if self._limit is not None:
            return
        position = self._count
        self._count += 1
        if not self.lanes:
            self._observer.on_next(Verdict(-1, chunk, UNKNOWN, 0, position))
            return
        self._last = chunk
        self._open[chunk.index] = _Open(position, len(self.lanes))
        caller = asyncio.current_task(self._loop)
        for lane in self.lanes:
            lane.feed(chunk, caller)
        if self._open:  # some lane has to wait for something
            if not self._holding and len(self._open) >= self._max_pending:
                self._holding = True
                self._demand.hold()
            self._demand.yield_turn()

    def on_judged(
        self, lane: Lane, chunk: Chunk, result: PartialValidationResult, reach: int
    ) -> None:
        index = chunk.index
        if self._limit is not None and index >= self._limit:
            return
        open_ = self._open[index]
        open_.missing -= 1
        if result.success == "fail":
            self._limit = index
            self._open = {known: o for known, o in self._open.items() if known < index}
            for other in self.lanes:
                other.stop_at(index)
        elif not open_.missing:
            del self._open[index]
        if self._holding and len(self._open) < self._max_pending:
            self._holding = False
            self._demand.release()
        covered = reach if lane.requirement.hold else None
        self._observer.on_next(
            Verdict(lane.position, chunk, result, len(self.lanes), open_.position, covered)
        )
        if self._source_ended:
            self._complete_if_done()

    def on_completed(self) -> None:
        index, end = self._began_at
        if self._last is not None:
            index, end = self._last.index + 1, self._last.end
        if index and self._limit is None and any(lane.keeps_a_tail for lane in self.lanes):
            self.on_chunk(Chunk(self._last.text[:0] if self._last else "", index, end, end))
        self._source_ended = True
        self._complete_if_done()

    def on_error(self, error: Exception) -> None:
        self.stop()
        self._observer.on_error(error)

    def stop(self) -> None:
        """Nobody wants verdicts any more."""
        self._limit = -1
        self._open.clear()
        for lane in self.lanes:
            lane.stop_at(-1)
        if self._holding:
            self._holding = False
            self._demand.release()

    def _complete_if_done(self) -> None:
        if self._source_ended and not self._open:
            for lane in self.lanes:
                lane.stop_at(-1)
            self._observer.on_completed()


class _Open:
    """A chunk that waits for verdicts."""

    __slots__ = ("missing", "position")

    def __init__(self, position: int, missing: int) -> None:
        self.position = position
        self.missing = missing
