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

UNKNOWN = PartialValidationResult("unknown")
_RANK = {"pass": 0, "unknown": 1, "fail": 2}


class Lane:
    """One requirement's clone, its queue and its workers.

    Args:
        position: Which lane this is, from 0.
        state: What it goes on from.
        judged: Called with each verdict, and the offset up to which it is a pass.
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
        judged: Callable[[Lane, Chunk, PartialValidationResult, int], None],
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
        self._chunks: deque[Chunk] = deque()
        self._alone = self._chunker is None and self.requirement.timeout is None
        self._idle: list[Worker[PartialValidationResult]] = []
        self._judging: dict[Worker[PartialValidationResult], Chunk | None] = {}
        self._limit: int | None = None
        # Of chunks cut again here: how far each is a pass, and the chunker after it.
        self._reach: dict[int, int] = {}
        self._cut_after: dict[int, Chunker | None] = {}
        self._add_worker()

    @property
    def keeps_a_tail(self) -> bool:
        """Whether the end of the stream may still bring out a chunk of its own."""
        return self._chunker is not None and not self._nested

    def feed(self, chunk: Chunk, caller: asyncio.Task[Any] | None) -> None:
        """Judge a chunk, or queue it while all workers are busy.

        A chunk without text is the end of the stream: the tail is due.

        Args:
            chunk: What to judge.
            caller: The current task, if there is one.
        """
        if self._limit is not None and chunk.index >= self._limit:
            return
        if not self._idle:
            self._chunks.append(chunk)
            if len(self._judging) < self.requirement.max_concurrency:
                self._add_worker()
            return
        worker = self._idle[-1]
        self._judging[worker] = chunk
        try:
            result = worker.first_step(self._judgement(chunk), caller)
        except asyncio.CancelledError:
            self._judging[worker] = None
            self._raised(chunk, self._cancelled_from_inside())
        except Exception as error:  # noqa: BLE001  its on_error decides
            self._judging[worker] = None
            self._raised(chunk, error)
        else:
            if result is WAITING:
                self._idle.pop()
            else:
                self._judging[worker] = None
                self._conclude(chunk, result)

    def stop_at(self, index: int) -> None:
        """Chunk `index` and later ones need no verdict any more; below 0, nothing does."""
        self._limit = index
        me = asyncio.current_task()
        for worker, chunk in self._judging.items():
            pointless = index < 0 if chunk is None else chunk.index >= index
            if pointless and worker.task is not me:
                self._scope.cancel(worker.task)

    def _add_worker(self) -> None:
        self._judging[Worker(self._work, self._scope)] = None

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
            while self._chunks:
                chunk = self._chunks.popleft()
                if self._limit is not None and chunk.index >= self._limit:
                    return
                self._judging[worker] = chunk
                await self._see_through(worker, chunk, self._judge_pieces(chunk))
            self._judging[worker] = None
            self._idle.append(worker)
            work = await worker.handed_over()
            judged = self._judging[worker]
            assert judged is not None
            await self._see_through(worker, judged, work)

    async def _see_through(
        self,
        worker: Worker[PartialValidationResult],
        chunk: Chunk,
        judgement: Awaitable[PartialValidationResult],
    ) -> None:
        error: Exception | None = None
        result = UNKNOWN
        try:
            result = await judgement
        except asyncio.CancelledError:
            if worker.task.cancelling():
                raise
            error = self._cancelled_from_inside()
        except Exception as raised:  # noqa: BLE001  its on_error decides
            error = raised
        with self._scope.current():  # the worker has left it, for the requirement's sake
            if error is None:
                self._conclude(chunk, result)
            else:
                self._raised(chunk, error)

    def _cancelled_from_inside(self) -> ValidatorError:
        name = self.requirement.name
        return ValidatorError(
            f"requirement {name!r} was cancelled from inside as it judged a chunk"
        )

    def _judgement(self, chunk: Chunk) -> Coroutine[Any, Any, PartialValidationResult]:
        """The coroutine that judges a chunk: the requirement's own wherever that is enough."""
        if self._alone and chunk.text:
            text = chunk.separator + chunk.text if self._verbatim else chunk.text
            work = self.requirement.stream_validate(text, backend=self._backend, ctx=self._ctx)
            if type(work) is CoroutineType:
                return work
            return _awaited(work)
        return self._judge_pieces(chunk)

    async def _judge_pieces(self, chunk: Chunk) -> PartialValidationResult:
        """Judge all pieces of a chunk; the first failure decides, else the least certain one."""
        pieces = self._pieces(chunk)
        if self._checkpoints is not None:
            self._cut_after[chunk.index] = copied(self._chunker)
        verdict = None
        for piece in pieces:
            try:
                result = self._checked(await self._ask(piece))
            except Exception as error:  # noqa: BLE001  its on_error decides
                result = on_error(self.requirement, error, piece)
            if result.success == "pass":
                self._reach[chunk.index] = piece.end
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

    def _conclude(self, chunk: Chunk, result: PartialValidationResult) -> None:
        try:
            reach = self._reach.pop(chunk.index, 0)
            if self._alone:
                self._checked(result)
                reach = chunk.end if result.success == "pass" else 0
            if self._checkpoints is not None:
                cut_after = self._cut_after.pop(chunk.index, self._chunker)
                if result.success != "fail":
                    state = LaneState(self.requirement, cut_after, self._base)
                    self._checkpoints.save(self.position, chunk.index, state)
            self._judged(self, chunk, result, reach)
        except Exception as error:  # noqa: BLE001  a copy or somebody downstream raised
            self._failed(error)

    def _raised(self, chunk: Chunk, error: Exception) -> None:
        if self.requirement.on_error == "raise":
            self._failed(error)
        else:
            self._conclude(chunk, on_error(self.requirement, error, chunk))

    def _text(self, chunk: Chunk) -> str:
        return chunk.separator + chunk.text if self._verbatim else chunk.text

    async def _ask(self, piece: Chunk) -> PartialValidationResult:
        if self.requirement.timeout is not None:
            return await self._ask_within(self.requirement.timeout, piece)
        return await self.requirement.stream_validate(
            self._text(piece), backend=self._backend, ctx=self._ctx
        )

    async def _ask_within(self, timeout: float, piece: Chunk) -> PartialValidationResult:
        try:
            async with asyncio.timeout(timeout) as limit:
                return await self.requirement.stream_validate(
                    self._text(piece), backend=self._backend, ctx=self._ctx
                )
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
