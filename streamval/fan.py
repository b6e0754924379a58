"""The lanes side by side: each chunk to all of them, and their verdicts back as they come.

Without observables; the operators `fan_out` and `judge` wrap it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from streamval.checkpoints import fresh
from streamval.chunkers.base import finer
from streamval.chunks import Chunk
from streamval.errors import UsageError
from streamval.lanes import UNKNOWN, Lane
from streamval.scope import running_loop
from streamval.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamval.backends.base import Backend
    from streamval.checkpoints import Checkpoints
    from streamval.chunkers.base import Chunking
    from streamval.context import Context
    from streamval.requirements.base import Requirement
    from streamval.results import PartialValidationResult
    from streamval.scope import Scope

MAX_PENDING_CHUNKS = 64


@dataclass(frozen=True, slots=True)
class FanOptions:
    """Who judges, and how. The attributes are the arguments of `fan_out`.

    Raises:
        UsageError: If `max_pending_chunks` is below 1.
    """

    requirements: tuple[Requirement, ...]
    backend: Backend | None = None
    ctx: Context | None = None
    max_pending_chunks: int = MAX_PENDING_CHUNKS
    chunking: Chunking = None
    index: int = 0
    start: int = 0
    checkpoints: Checkpoints | None = None
    on_start: Callable[[tuple[Requirement, ...]], None] | None = None

    def __post_init__(self) -> None:
        if self.max_pending_chunks < 1:
            message = f"max_pending_chunks must be at least 1, not {self.max_pending_chunks}"
            raise UsageError(message)


class Fan:
    """The lanes of one subscription, and how many verdicts each open chunk still waits for."""

    def __init__(
        self,
        options: FanOptions,
        scope: Scope,
        tell: Callable[[Verdict], None],
        failed: Callable[[Exception], None],
        ended: Callable[[], None],
    ) -> None:
        # Kept, as asking for it costs a system call on Python 3.11, and is needed for each chunk.
        self._loop = running_loop()
        self._tell = tell
        self._failed = failed
        self._ended = ended
        self._demand = scope.demand
        self._max_pending = options.max_pending_chunks
        self._count = 0
        self._open: dict[int, _Open] = {}
        self._began_at = (options.index, options.start)
        self._last: Chunk | None = None
        self._limit: int | None = None
        self._holding = False
        self._source_ended = False
        self.lanes = [
            Lane(
                position,
                (options.checkpoints and options.checkpoints.start(position))
                or fresh(requirement, 0),
                self.on_judged,
                self.on_error,
                scope,
                nested=finer(requirement.chunking, options.chunking),
                backend=options.backend,
                ctx=options.ctx,
                checkpoints=options.checkpoints,
            )
            for position, requirement in enumerate(options.requirements)
        ]
        if options.on_start is not None:
            options.on_start(tuple(lane.requirement for lane in self.lanes))

    def on_chunk(self, chunk: Chunk) -> None:
        """A chunk to judge."""
        if self._limit is not None:
            return
        position = self._count
        self._count += 1
        if not self.lanes:
            self._tell(Verdict(-1, chunk, UNKNOWN, 0, position))
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
        """A lane has spoken."""
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
        self._tell(Verdict(lane.position, chunk, result, len(self.lanes), open_.position, covered))
        if self._source_ended:
            self._complete_if_done()

    def on_completed(self) -> None:
        """No more chunks will come."""
        index, end = self._began_at
        if self._last is not None:
            index, end = self._last.index + 1, self._last.end
        if index and self._limit is None and any(lane.keeps_a_tail for lane in self.lanes):
            tail = self._last or Chunk("", 0, 0, 0)
            nothing = tail.text[:0]  # of text, or of sound
            self.on_chunk(
                replace(tail, text=nothing, index=index, start=end, end=end, separator=nothing)
            )
        self._source_ended = True
        self._complete_if_done()

    def on_error(self, error: Exception) -> None:
        """The source, or a validator, has raised."""
        self.stop()
        self._failed(error)

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
            self._ended()


class _Open:
    """A chunk that waits for verdicts."""

    __slots__ = ("missing", "position")

    def __init__(self, position: int, missing: int) -> None:
        self.position = position
        self.missing = missing
