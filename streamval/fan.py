"""The lanes side by side: each chunk to all of them, and their verdicts back as they come.

Without observables; the operators `fan_out` and `judge` wrap it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from streamval.checkpoints import fresh
from streamval.chunkers.base import finer
from streamval.chunks import Chunk
from streamval.errors import UsageError
from streamval.lanes import UNKNOWN, Lane
from streamval.scope import running_loop
from streamval.verdicts import CheckOrder, Row, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamval.backends.base import Backend
    from streamval.checkpoints import Checkpoints
    from streamval.chunkers.base import Chunking
    from streamval.context import Context
    from streamval.requirements.base import Requirement
    from streamval.results import PartialValidationResult
    from streamval.scope import Scope
    from streamval.verdicts import Check

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
    """The lanes of one subscription, and the rows of verdicts that they fill.

    Args:
        options: Who judges, and how.
        scope: Owns the lanes' workers.
        failed: Called with what the source or a validator raised.
        ended: Called once the source has ended and all verdicts are in.
        on_verdict: Called with each verdict, as they come.
        on_check: Called with each check, in chunk order, up to the first that failed.
        cut: Called at the first failed verdict, whoever else still judges earlier chunks: no more
            chunks are wanted.
    """

    def __init__(
        self,
        options: FanOptions,
        scope: Scope,
        failed: Callable[[Exception], None],
        ended: Callable[[], None],
        *,
        on_verdict: Callable[[Verdict], None] | None = None,
        on_check: Callable[[Check], None] | None = None,
        cut: Callable[[], None] | None = None,
    ) -> None:
        # Kept, as asking for it costs a system call on Python 3.11, and is needed for each chunk.
        self._loop = running_loop()
        self._failed = failed
        self._ended = ended
        self._on_verdict = on_verdict
        self._on_check = on_check
        self._cut = cut
        self._demand = scope.demand
        self._max_pending = options.max_pending_chunks
        self._count = 0
        self._rows: deque[Row] = deque()
        self._order = CheckOrder()
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
        row = Row(chunk, len(self.lanes), self._count)
        self._count += 1
        self._last = chunk
        self._rows.append(row)
        if not self.lanes and self._on_verdict is not None:
            self._on_verdict(Verdict(-1, chunk, UNKNOWN, 0, row.position))
        caller = asyncio.current_task(self._loop)
        for lane in self.lanes:
            result = lane.judge(row, caller)
            if result is not None:
                self._add(row, lane, result)
            if self._limit is not None:
                break
        self._settle()
        if self._rows:  # some lane has to wait for something
            if not self._holding and len(self._rows) >= self._max_pending:
                self._holding = True
                self._demand.hold()
            self._demand.yield_turn()

    def on_judged(self, row: Row, lane: Lane, result: PartialValidationResult) -> None:
        """A lane has spoken on a chunk that it could not judge on the spot."""
        if self._limit is not None and row.chunk.index >= self._limit:
            return
        self._add(row, lane, result)
        self._settle()

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
        self._settle()

    def on_error(self, error: Exception) -> None:
        """The source, or a validator, has raised."""
        self.stop()
        self._failed(error)

    def stop(self) -> None:
        """Nobody wants verdicts any more."""
        self._limit = -1
        self._rows.clear()
        for lane in self.lanes:
            lane.stop_at(-1)
        self._let_go()

    def _add(self, row: Row, lane: Lane, result: PartialValidationResult) -> None:
        row.add(lane.position, result)
        if result.success == "fail":
            self._stop_after(row)
        if self._on_verdict is not None:
            covered = None if row.covered is None else row.covered.get(lane.position)
            self._on_verdict(
                Verdict(lane.position, row.chunk, result, len(self.lanes), row.position, covered)
            )

    def _stop_after(self, failed: Row) -> None:
        """A chunk has failed: it and later ones need no verdict, earlier ones still do."""
        self._limit = failed.chunk.index
        while self._rows[-1] is not failed:
            self._rows.pop()
        for lane in self.lanes:
            lane.stop_at(self._limit)
        if self._cut is not None:
            self._source_ended = True
            self._cut()

    def _settle(self) -> None:
        """Make checks of the rows that are done, but for those behind one that is not."""
        rows = self._rows
        while rows and rows[0].done:
            row = rows.popleft()
            if self._on_check is not None:
                self._on_check(self._order.check(row))
        self._let_go()
        if self._source_ended and not rows:
            for lane in self.lanes:
                lane.stop_at(-1)
            self._ended()

    def _let_go(self) -> None:
        if self._holding and len(self._rows) < self._max_pending:
            self._holding = False
            self._demand.release()
