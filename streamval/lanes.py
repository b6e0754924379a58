"""Lanes: one clone of a requirement each, judging chunks beside the others.

A lane is a queue of chunks and as many worker tasks as its requirement's `max_concurrency` allows.
The operator `fan_out` feeds them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamval.chunkers.base import shifted, start_chunker
from streamval.errors import ValidatorError, ValidatorTimeoutError
from streamval.results import PartialValidationResult
from streamval.verdicts import worst

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streamval.backends.base import Backend
    from streamval.bridge import Scope
    from streamval.chunkers.base import Chunker
    from streamval.chunks import Chunk
    from streamval.context import Context
    from streamval.requirements.base import Requirement

UNKNOWN = PartialValidationResult("unknown")


@dataclass(frozen=True, slots=True)
class LaneState:
    """What a lane goes on from.

    Attributes:
        requirement: The clone that judges, with what it has seen so far.
        chunker: Cuts the stream for this lane alone; `None` where the pipeline's chunks serve.
        base: Offset in the raw text at which `chunker` began.
    """

    requirement: Requirement
    chunker: Chunker | None = None
    base: int = 0

    def copied(self) -> LaneState:
        """A copy that judging on will not touch."""
        return LaneState(copy(self.requirement), copy(self.chunker), self.base)


class Checkpoints:
    """The lanes' states after each chunk that may yet turn out to be the last good one.

    A `Repair` that continues needs them: the next attempt's lanes start from the state after the
    last kept chunk, so that nothing is judged twice.
    """

    def __init__(self) -> None:
        self._after: dict[int, dict[int, LaneState]] = {}
        self._start: dict[int, LaneState] = {}

    def save(self, lane: int, index: int, state: LaneState) -> None:
        """Keep a lane's state after chunk `index`."""
        self._after.setdefault(index, {})[lane] = state.copied()

    def delivered(self, index: int) -> None:
        """Chunk `index` went to the consumer: a new attempt will start behind it."""
        self._start = self._after.pop(index, self._start)
        for older in [known for known in self._after if known < index]:
            del self._after[older]

    def rewind(self) -> None:
        """Forget what was judged past the last delivered chunk."""
        self._after.clear()

    def reset(self) -> None:
        """Forget everything: a new attempt starts from nothing."""
        self._after.clear()
        self._start = {}

    def start(self, lane: int) -> LaneState | None:
        """The state a lane goes on from, if it has one."""
        state = self._start.get(lane)
        return None if state is None else state.copied()


def fresh(requirement: Requirement, base: int) -> LaneState:
    """The state of a lane that has judged nothing yet."""
    chunker = None if requirement.chunking is None else start_chunker(requirement.chunking)
    return LaneState(copy(requirement), chunker, base)


class Lane:
    """One requirement's clone, its queue and its workers.

    Args:
        position: Which lane this is, from 0.
        state: What it goes on from.
        judged: Called with each verdict.
        failed: Called with what the validator raised, where that ends the run.
        nested: Whether its own chunks never reach across the pipeline's, so that each of those
            ends one of its own.
    """

    def __init__(
        self,
        position: int,
        state: LaneState,
        judged: Callable[[Lane, Chunk, PartialValidationResult], None],
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
        self.covered = 0
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
        self._idle: list[asyncio.Future[None]] = []
        self._workers: dict[asyncio.Task[None], int | None] = {}
        self._limit: int | None = None

    @property
    def keeps_a_tail(self) -> bool:
        """Whether the end of the stream may still bring out a chunk of its own."""
        return self._chunker is not None and not self._nested

    def feed(self, chunk: Chunk) -> None:
        """Queue a chunk. One without text is the end of the stream: the tail is due."""
        self._chunks.append(chunk)
        if self._idle:
            waiter = self._idle.pop()
            if not waiter.done():
                waiter.set_result(None)
        elif len(self._workers) < self.requirement.max_concurrency:
            self._workers[self._scope.spawn(self._work())] = None

    def stop_at(self, index: int) -> None:
        """Chunk `index` and later ones need no verdict any more."""
        self._limit = index
        me = asyncio.current_task()
        for worker, judging in self._workers.items():
            if worker is not me and (judging is None or judging >= index):
                worker.cancel()

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

    async def _work(self) -> None:
        me = asyncio.current_task()
        assert me is not None
        loop = asyncio.get_running_loop()
        try:
            while True:
                while self._chunks:
                    chunk = self._chunks.popleft()
                    if self._limit is not None and chunk.index >= self._limit:
                        return
                    self._workers[me] = chunk.index
                    self._judged(self, chunk, await self._judge(chunk))
                self._workers[me] = None
                waiter = loop.create_future()
                self._idle.append(waiter)
                await waiter
        except asyncio.CancelledError:
            if me.cancelling():
                raise
            name = self.requirement.name
            message = f"requirement {name!r} was cancelled from inside while it judged a chunk"
            self._failed(ValidatorError(message))
        except Exception as error:  # noqa: BLE001  ends the run, as the error it is
            self._failed(error)

    async def _judge(self, chunk: Chunk) -> PartialValidationResult:
        """Judge all pieces of a chunk; the first failure decides, else the least certain one."""
        results: list[PartialValidationResult] = []
        for piece in self._pieces(chunk):
            result = await self._ask(piece)
            if result.success == "fail":
                return result
            if result.success == "pass" and piece.end > self.covered:
                self.covered = piece.end
            results.append(result)
        if self._checkpoints is not None:
            state = LaneState(self.requirement, self._chunker, self._base)
            self._checkpoints.save(self.position, chunk.index, state)
        if len(results) == 1:
            return results[0]
        verdict = worst({result.success for result in results})
        return next((result for result in results if result.success == verdict), UNKNOWN)

    async def _ask(self, piece: Chunk) -> PartialValidationResult:
        requirement = self.requirement
        try:
            if requirement.timeout is None:
                result = await requirement.stream_validate(
                    piece.text, backend=self._backend, ctx=self._ctx
                )
            else:
                result = await self._ask_within(requirement.timeout, piece)
            if not isinstance(result, PartialValidationResult):
                message = (
                    f"stream_validate of {requirement.name!r} returned {type(result).__name__}; "
                    "return a PartialValidationResult"
                )
                raise ValidatorError(message)
        except Exception as error:
            return on_error(requirement, error, piece)
        return result

    async def _ask_within(self, timeout: float, piece: Chunk) -> PartialValidationResult:
        try:
            async with asyncio.timeout(timeout) as limit:
                return await self.requirement.stream_validate(
                    piece.text, backend=self._backend, ctx=self._ctx
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


def on_error(
    requirement: Requirement, error: Exception, piece: Chunk
) -> PartialValidationResult:
    """What it means that judging `piece` raised: the requirement's `on_error` says."""
    if requirement.on_error == "raise":
        raise error
    reason = f"could not judge chunk {piece.index}: {type(error).__name__}: {error}"
    return PartialValidationResult(requirement.on_error, reason=reason)
