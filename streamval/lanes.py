"""Lanes: one clone of a requirement each, judging chunks beside the others.

A lane is a queue of chunks and as many workers as its requirement's `max_concurrency` allows. The
operator `fan_out` feeds it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from types import CoroutineType
from typing import TYPE_CHECKING

from streamval.checkpoints import LaneState, copied
from streamval.chunkers.base import shifted
from streamval.errors import ValidatorError, ValidatorTimeoutError
from streamval.results import PartialValidationResult
from streamval.worker import WAITING, Worker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence
    from typing import Any

    from streamval.backends.base import Backend
    from streamval.checkpoints import Checkpoints
    from streamval.chunkers.base import Chunker
    from streamval.chunks import Chunk
    from streamval.context import Context
    from streamval.requirements.base import Requirement
    from streamval.scope import Scope
    from streamval.verdicts import Row

UNKNOWN = PartialValidationResult("unknown")
_RANK = {"pass": 0, "unknown": 1, "fail": 2}


class Lane:
    """One requirement's clone, its queue and its workers.

    Args:
        position: Which lane this is, from 0.
        state: What it goes on from.
        judged: Called with each verdict that took longer than `judge`.
        failed: Called with what the validator raised, where that ends the run.
        scope: Owns the workers.
        nested: Whether its own chunks never reach across the pipeline's, so that each of those
            ends one of its own.
        backend: Handed to the requirement.
        ctx: Handed to the requirement.
        checkpoints: Where to keep the state after each chunk, if anywhere.
    """

    def __init__(
        self,
        position: int,
        state: LaneState,
        judged: Callable[[Row, Lane, PartialValidationResult], None],
        failed: Callable[[Exception], None],
        scope: Scope,
        *,
        nested: bool = False,
        backend: Backend | None = None,
        ctx: Context | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        self.position = position
        self.requirement = state.requirement
        self._validate = state.requirement.stream_validate
        self._verbatim = state.requirement.verbatim
        self._chunker = state.chunker
        self._base = state.base
        self._judged = judged
        self._failed = failed
        self._scope = scope
        self._nested = nested
        self._backend = backend
        self._ctx = ctx
        self._checkpoints = checkpoints
        self._rows: deque[Row] = deque()
        self._alone = not (self._chunker or self.requirement.timeout or self.requirement.hold)
        self._idle: list[Worker[PartialValidationResult]] = []
        self._workers: list[Worker[PartialValidationResult]] = []
        self._limit: int | None = None
        # Of chunks cut again here: the chunker after each.
        self._cut_after: dict[int, Chunker | None] = {}
        self._add_worker()

    @property
    def keeps_a_tail(self) -> bool:
        """Whether the end of the stream may still bring out a chunk of its own."""
        return self._chunker is not None and not self._nested

    def judge(self, row: Row, caller: asyncio.Task[Any] | None) -> PartialValidationResult | None:
        """Judge a chunk, or queue it while all workers are busy.

        A chunk without text is the end of the stream: the tail is due.

        Args:
            row: Whose chunk to judge.
            caller: The current task, if there is one.

        Returns:
            The verdict, or `None` where it will be told later.
        """
        if not self._idle:
            self._rows.append(row)
            if len(self._workers) < self.requirement.max_concurrency:
                self._add_worker()
            return None
        worker = self._idle[-1]
        worker.job = row
        try:
            result = worker.first_step(self._judgement(row), caller)
        except asyncio.CancelledError:
            result = self._cancelled_from_inside()
        except Exception as error:  # noqa: BLE001  its on_error decides
            result = error
        if result is WAITING:
            self._idle.pop()
            return None
        worker.job = None
        if type(result) is PartialValidationResult and self._checkpoints is None:
            return result  # as nearly always
        return self._concluded(row, result)

    def stop_at(self, index: int) -> None:
        """Chunk `index` and later ones need no verdict any more; below 0, nothing does."""
        self._limit = index
        me = asyncio.current_task()
        for worker in self._workers:
            row: Row | None = worker.job
            pointless = index < 0 if row is None else row.chunk.index >= index
            if pointless and worker.task is not me:
                self._scope.cancel(worker.task)

    def _add_worker(self) -> None:
        self._workers.append(Worker(self._work, self._scope))

    def _pieces(self, chunk: Chunk) -> Sequence[Chunk]:
        """The chunk, or what this lane's own chunker makes of it."""
        if self._chunker is None:
            return (chunk,) if chunk.text else ()
        pieces = self._chunker.feed(chunk.separator + chunk.text)
        if self._nested or not chunk.text:
            pieces += self._chunker.flush()
        if self._base:
            return [shifted(piece, self._base) for piece in pieces]
        return pieces

    async def _work(self, worker: Worker[PartialValidationResult]) -> None:
        """Judge what has queued up, then finish what did not end in its first step."""
        while True:
            while self._rows:
                row = self._rows.popleft()
                if self._limit is not None and row.chunk.index >= self._limit:
                    return
                worker.job = row
                await self._see_through(worker, row, self._judge_pieces(row))
            worker.job = None
            self._idle.append(worker)
            work = await worker.handed_over()
            await self._see_through(worker, worker.job, work)

    async def _see_through(
        self,
        worker: Worker[PartialValidationResult],
        row: Row,
        judgement: Awaitable[PartialValidationResult],
    ) -> None:
        result: object = UNKNOWN
        try:
            result = await judgement
        except asyncio.CancelledError:
            if worker.task.cancelling():
                raise
            result = self._cancelled_from_inside()
        except Exception as error:  # noqa: BLE001  its on_error decides
            result = error
        with self._scope.current():  # the worker has left it, for the requirement's sake
            try:
                verdict = self._concluded(row, result)
                if verdict is not None:
                    self._judged(row, self, verdict)
            except Exception as error:  # noqa: BLE001  somebody downstream raised
                self._failed(error)

    def _cancelled_from_inside(self) -> ValidatorError:
        name = self.requirement.name
        return ValidatorError(
            f"requirement {name!r} was cancelled from inside as it judged a chunk"
        )

    def _judgement(self, row: Row) -> Coroutine[Any, Any, PartialValidationResult]:
        """The coroutine that judges a chunk: the requirement's own wherever that is enough."""
        chunk = row.chunk
        if self._alone and chunk.text:
            text = chunk.separator + chunk.text if self._verbatim else chunk.text
            work = self._validate(text, backend=self._backend, ctx=self._ctx)
            return work if type(work) is CoroutineType else _awaited(work)
        return self._judge_pieces(row)

    async def _judge_pieces(self, row: Row) -> PartialValidationResult:
        """Judge all pieces of a chunk; the first failure decides, else the least certain one."""
        pieces = self._pieces(row.chunk)
        if self._checkpoints is not None:
            self._cut_after[row.chunk.index] = copied(self._chunker)
        if self.requirement.hold:
            row.cover(self.position, 0)
        verdict = None
        for piece in pieces:
            try:
                result = self._checked(await self._ask(piece))
            except Exception as error:  # noqa: BLE001  its on_error decides
                result = on_error(self.requirement, error, piece)
            if self.requirement.hold and result.success == "pass":
                row.cover(self.position, piece.end)
            if verdict is None or _RANK[result.success] > _RANK[verdict.success]:
                verdict = result
            if result.success == "fail":
                break
        return verdict or UNKNOWN

    def _checked(self, result: object) -> PartialValidationResult:
        """The result, if it is one."""
        if not isinstance(result, PartialValidationResult):
            message = (
                f"stream_validate of {self.requirement.name!r} returned {type(result).__name__}; "
                "return a PartialValidationResult"
            )
            raise ValidatorError(message)
        return result

    def _concluded(self, row: Row, result: object) -> PartialValidationResult | None:
        """The verdict of what judging a chunk gave or raised; `None` if that ends the run."""
        requirement, chunk = self.requirement, row.chunk
        try:
            if isinstance(result, Exception):
                result = on_error(requirement, result, chunk)
            verdict = self._checked(result)
            if self._checkpoints is not None:
                cut_after = self._cut_after.pop(chunk.index, self._chunker)
                if verdict.success != "fail":
                    state = LaneState(requirement, cut_after, self._base)
                    self._checkpoints.save(self.position, chunk.index, state)
        except Exception as error:  # noqa: BLE001  the validator, or a copy of its state
            self._failed(error)
            return None
        return verdict

    def _text(self, chunk: Chunk) -> str:
        return chunk.separator + chunk.text if self._verbatim else chunk.text

    async def _ask(self, piece: Chunk) -> PartialValidationResult:
        if self.requirement.timeout is not None:
            return await self._ask_within(self.requirement.timeout, piece)
        return await self._validate(self._text(piece), backend=self._backend, ctx=self._ctx)

    async def _ask_within(self, timeout: float, piece: Chunk) -> PartialValidationResult:
        try:
            async with asyncio.timeout(timeout) as limit:
                return await self._validate(self._text(piece), backend=self._backend, ctx=self._ctx)
        except TimeoutError:
            if not limit.expired():
                raise
            message = (
                f"requirement {self.requirement.name!r} gave no verdict on chunk {piece.index} "
                f"within {timeout:g} seconds; raise its timeout, or say what that means with "
                "on_error='fail' or 'pass'"
            )
            raise ValidatorTimeoutError(message) from None


async def _awaited(work: Awaitable[PartialValidationResult]) -> PartialValidationResult:
    """Of an awaitable that is no coroutine."""
    return await work


def on_error(requirement: Requirement, error: Exception, piece: Chunk) -> PartialValidationResult:
    """What it means that judging `piece` raised: the requirement's `on_error` says."""
    if requirement.on_error == "raise":
        raise error
    reason = f"could not judge chunk {piece.index}: {type(error).__name__}: {error}"
    return PartialValidationResult(requirement.on_error, reason=reason)
