"""The lanes side by side: each chunk to all of them, and their verdicts back as they come.

Without observables; the operator `fan_out` wraps it, and an attempt uses it as it is. The lanes of one
subscription share workers, so that a context variable that a validator sets and does not reset may be
seen by others of the same run, never by anybody else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from streamval.checkpoints import fresh
from streamval.chunkers.base import finer
from streamval.chunks import Chunk
from streamval.errors import UsageError, ValidatorError
from streamval.lanes import UNKNOWN, Lane
from streamval.scope import running_loop
from streamval.verdicts import CheckOrder, Row, Verdict
from streamval.worker import WAITING, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
        self._limit: int | None = None  # no verdict from this row on; -1 once it is all over
        self._holding = False
        self._source_ended = False
        self._scope = scope
        self._workers: list[Worker[None]] = []
        self._idle: list[Worker[None]] = []
        self.lanes = [
            Lane(
                position,
                (options.checkpoints and options.checkpoints.start(position))
                or fresh(requirement, 0),
                nested=finer(requirement.chunking, options.chunking),
                backend=options.backend,
                ctx=options.ctx,
                checkpoints=options.checkpoints,
            )
            for position, requirement in enumerate(options.requirements)
        ]
        if options.on_start is not None:
            options.on_start(tuple(lane.requirement for lane in self.lanes))
        if self.lanes:
            self._employ()

    def on_chunk(self, chunk: Chunk) -> None:
        """A chunk to judge."""
        if self._limit is not None:
            return
        row = Row(chunk, len(self.lanes), self._count)
        self._count += 1
        self._last = chunk
        self._rows.append(row)
        if self.lanes:
            self._ask_all(row)
        elif self._on_verdict is not None:
            self._on_verdict(Verdict(-1, chunk, UNKNOWN, 0, row.position))
        self._settle()
        if self._rows:  # some lane has to wait for something
            if not self._holding and len(self._rows) >= self._max_pending:
                self._holding = True
                self._demand.hold()
            self._demand.yield_turn()

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
        self._stop_at(-1)
        if self._holding:
            self._let_go()

    def _ask_all(self, row: Row) -> None:
        """Ask lane after lane, as one worker, on the spot.

        A lane that has to wait for something keeps that worker; the rest is asked as another.
        """
        caller = asyncio.current_task(self._loop)
        question = _Question(row, iter(self.lanes))
        while self._idle:
            worker = self._idle.pop()
            if worker.first_step(self._ask(worker, question), caller) is not WAITING:
                self._idle.append(worker)
                break
        else:
            for lane in question.lanes:
                if not self._is_over(row) and lane.takes(row):
                    self._employ(lane, row)
        question.asked = True
        if question.error is not None:
            self.on_error(question.error)
        if not self._is_over(row):
            self._on_answers(question)
        elif self._limit == -1:  # one of them has ended it all; it was spared, as it was asking
            self._stop_at(-1)

    async def _ask(self, worker: Worker[None], question: _Question) -> None:
        """As a worker: ask the lanes that nobody has asked yet."""
        row = worker.job = question.row
        for lane in question.lanes:
            if self._limit is not None and self._is_over(row):  # a validator has stopped it
                break
            if not lane.takes(row):
                continue
            answer = await lane.judge(row)
            if question.asked:  # it had to wait, and the rest has been asked meanwhile
                await self._serve(worker, lane, row, answer)
                return
            if lane.waiting:  # the validator pushed a chunk itself
                self._employ(lane, lane.next())
            else:
                lane.places += 1
            if isinstance(answer, Exception):
                question.error = answer
                break
            row.add(lane.position, answer)
            question.answered.append(lane.position)
            if answer.success == "fail":
                break
        worker.job = None

    async def _serve(
        self,
        worker: Worker[None],
        lane: Lane,
        row: Row,
        answer: PartialValidationResult | Exception,
    ) -> None:
        """As a worker: tell what a lane has answered at last, and ask it what has queued up."""
        self._on_late_answer(row, lane, answer)
        while (waiting := lane.next()) is not None:
            worker.job = waiting
            self._on_late_answer(waiting, lane, await lane.judge(waiting))
        worker.job = None

    def _on_answers(self, question: _Question) -> None:
        """Some lanes, or all, have spoken on the spot."""
        row = question.row
        if row.success == "fail":
            self._stop_after(row)
        if self._on_verdict is not None:
            for position in question.answered:
                self._on_verdict(row.verdict(position))

    def _on_late_answer(
        self, row: Row, lane: Lane, answer: PartialValidationResult | Exception
    ) -> None:
        """A lane has spoken on a chunk that it had to wait for, or raised what ends the run."""
        if self._is_over(row):
            return
        with self._scope.current():  # the worker has left it, for the requirement's sake
            try:
                if isinstance(answer, Exception):
                    raise answer
                row.add(lane.position, answer)
                if answer.success == "fail":
                    self._stop_after(row)
                if self._on_verdict is not None:
                    self._on_verdict(row.verdict(lane.position))
                self._settle()
            except Exception as error:  # noqa: BLE001  the validator, or somebody downstream
                self.on_error(error)

    def _employ(self, lane: Lane | None = None, row: Row | None = None) -> None:
        """One more worker; with a chunk of a lane to begin with, if there is one."""

        async def work(worker: Worker[None]) -> None:
            worker.job = row
            try:
                if lane is not None and row is not None:
                    await self._serve(worker, lane, row, await lane.judge(row))
                # Once it is all over, a worker that has just told so was spared; and a validator
                # may have ignored that its worker was cancelled.
                while self._limit != -1 and not self._scope.has_cancelled(worker.task):
                    self._idle.append(worker)
                    await (await worker.handed_over())
            except asyncio.CancelledError:
                # Ends quietly: a cancelled task keeps its traceback, and with it all that this
                # subscription is made of, until the garbage collector comes by.
                if not self._scope.has_cancelled(worker.task):
                    self.on_error(_cancelled_by_others())

        self._workers.append(Worker(work, self._scope))

    def _stop_after(self, failed: Row) -> None:
        """A chunk has failed: it and later ones need no verdict, earlier ones still do."""
        self._limit = failed.position
        while self._rows[-1] is not failed:
            self._rows.pop()
        self._stop_at(self._limit)
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
        if self._holding:
            self._let_go()
        if self._source_ended and not rows and self._limit != -1:
            self._limit = -1
            self._stop_at(-1)
            self._ended()

    def _is_over(self, row: Row) -> bool:
        """Whether nobody wants a verdict on that chunk any more."""
        return self._limit is not None and row.position >= self._limit

    def _stop_at(self, position: int) -> None:
        """The row at `position` and later ones need no verdict any more; below 0, nothing does."""
        for lane in self.lanes:
            lane.stop_at(position)
        me = asyncio.current_task()
        for worker in self._workers:
            row: Row | None = worker.job
            pointless = position < 0 if row is None else row.position >= position
            if pointless and worker.task is not me:
                self._scope.cancel(worker.task)

    def _let_go(self) -> None:
        if len(self._rows) < self._max_pending:
            self._holding = False
            self._demand.release()


def _cancelled_by_others() -> ValidatorError:
    return ValidatorError("a validator, or somebody else, cancelled the task that judges chunks")


class _Question:
    """A chunk on its way from lane to lane.

    Attributes:
        row: Whose chunk it is.
        lanes: The lanes that are still to be asked.
        answered: Positions of those that have spoken on the spot.
        asked: Whether all that can be asked on the spot has been: answers are late now.
        error: What a validator raised, asked on the spot.
    """

    __slots__ = ("answered", "asked", "error", "lanes", "row")

    def __init__(self, row: Row, lanes: Iterator[Lane]) -> None:
        self.row = row
        self.lanes = lanes
        self.answered: list[int] = []
        self.asked = False
        self.error: Exception | None = None
