"""A lane: one clone of a requirement, and the chunks that wait for it.

A lane knows how its requirement is asked: whole chunks or pieces of its own cutting, within a
timeout, and what an exception means. `streamval.validation.fan` decides when it is asked.

One judgement is written once, for plain functions and coroutine functions alike: `_judging` is a
generator that yields whatever has to be awaited. `judge_now` runs it without a task, `judge` from
inside a task.
"""

from __future__ import annotations

import asyncio
from collections import deque
from inspect import isawaitable, iscoroutinefunction
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from streamval.chunkers.base import shifted
from streamval.chunkers.chunking import finer
from streamval.chunkers.json import JSONDelta
from streamval.errors import ValidatorError, ValidatorTimeoutError
from streamval.requirements.base import Requirement
from streamval.types.results import PartialValidationResult
from streamval.validation.checkpoints import LaneState, copied, fresh

if TYPE_CHECKING:
    from collections.abc import Awaitable, Generator, Sequence

    from streamval.chunkers.base import Chunker
    from streamval.types.chunks import Chunk
    from streamval.validation.options import FanOptions
    from streamval.validation.verdicts import Row

UNKNOWN = PartialValidationResult("unknown")
_RANK = {"pass": 0, "unknown": 1, "fail": 2}

Answer: TypeAlias = "PartialValidationResult | BaseException"
"""A verdict, or the exception that ends the run."""

Judging: TypeAlias = "Generator[Awaitable[object], object, Answer]"
"""A judgement: a generator that yields awaitables, is sent their results, returns the answer."""


class _Waiting(NamedTuple):
    """A judgement that cannot go on before something has been awaited."""

    position: int
    judging: Judging
    awaited: Awaitable[object]


class Lane:
    """One requirement's clone, and the chunks that wait for it.

    Args:
        position: Which lane this is, from 0.
        requirement: The original, which is cloned here.
        options: What all lanes share.

    Attributes:
        requirement: The clone.
        silent: Whether it has no `stream_validate` of its own. Then it is never asked, and each
            chunk is unknown.
        plain: Whether its `stream_validate` is a plain function, which can be asked without a task.
        slots: How many more chunks may be judged at once.
        queue: The chunks that wait for a slot.
    """

    def __init__(self, position: int, requirement: Requirement, options: FanOptions) -> None:
        checkpoints = options.checkpoints
        state = (checkpoints and checkpoints.start(position)) or fresh(requirement, options.start)
        clone = state.requirement
        validate: Any = clone.stream_validate
        self.position = position
        self.requirement = clone
        self.plain = not iscoroutinefunction(validate)
        self.silent = (
            getattr(validate, "__func__", None) is Requirement.stream_validate
            and not clone.hold
            and state.chunker is None
        )
        self.slots = clone.max_concurrency
        self.queue: deque[Row] = deque()
        self._validate = validate
        self._verbatim = clone.verbatim
        self._reads_json = clone.reads_json
        self._backend = options.backend
        self._ctx = options.ctx
        self._checkpoints = checkpoints
        # A chunker of its own; `_nested`: its pieces never reach across the pipeline's chunks.
        self._chunker = state.chunker
        self._base = state.base
        self._nested = finer(requirement.chunking, options.chunking)
        self._cuts: dict[int, _Cut] = {}
        self._waiting: _Waiting | None = None
        self._simple = not (self._chunker or clone.hold or checkpoints is not None)
        self._asks_simply = self._simple and not self.plain and clone.timeout is None

    @property
    def keeps_a_tail(self) -> bool:
        """Whether the lane's own chunker may still return a piece at the end of the stream."""
        return self._chunker is not None and not self._nested

    # When it is asked

    def admit(self, row: Row) -> bool:
        """Take a slot for the chunk; if none is free, queue the chunk.

        For lanes that are not plain: called once for each chunk, in their order.
        """
        if self._chunker is not None:
            self._cuts[row.position] = self._cut(row.chunk, self._chunker)
        if not self.slots:
            self.queue.append(row)
            return False
        self.slots -= 1
        return True

    def stop_at(self, position: int) -> None:
        """Forget the chunks from `position` on: they need no verdict any more."""
        while self.queue and self.queue[-1].position >= position:
            self.queue.pop()
        if self._waiting is not None and self._waiting.position >= position:
            _, judging, awaited = self._waiting
            self._waiting = None
            judging.close()
            if hasattr(awaited, "close"):
                awaited.close()

    # How it is asked

    def judge_now(self, row: Row) -> Answer | None:
        """Judge a chunk without a task. `None` if it has to wait: then go on with `judge`.

        A chunk without text is the end of the stream: what the lane's own chunker holds is due.
        """
        chunk = row.chunk
        begun: tuple[object, ...] = ()
        if self._simple and chunk.text:  # the same as `_judging`, without a generator
            said = self._said(chunk)
            try:
                result = self._validate(said, backend=self._backend, ctx=self._ctx)
            except BaseException as raised:  # on_error says what it means
                return self._despite(raised, chunk)
            if type(result) is PartialValidationResult:
                verdict: PartialValidationResult = result
                return verdict
            begun = (result,)
        elif self._chunker is not None:
            self._cuts[row.position] = self._cut(chunk, self._chunker)
        judging = self._judging(row, begun)
        try:
            self._waiting = _Waiting(row.position, judging, next(judging))
        except StopIteration as end:
            answer: Answer = end.value
            return answer
        return None

    def judge(self, row: Row) -> Awaitable[Answer]:
        """Judge a chunk from inside a task, which awaits this at once.

        Raises:
            asyncio.CancelledError: When it is awaited, if the task is cancelled.
        """
        if self._asks_simply and row.chunk.text:
            return self._judge_simply(row.chunk)
        return self._judge_pieces(row)

    async def _judge_simply(self, chunk: Chunk) -> Answer:
        """Ask a coroutine function about a whole chunk: `_judge_pieces` at half the price."""
        said = self._said(chunk)
        try:
            result = await self._validate(said, backend=self._backend, ctx=self._ctx)
            return result if type(result) is PartialValidationResult else self._checked(result)
        except BaseException as raised:
            if is_cancelled(raised):
                raise
            return self._despite(raised, chunk)

    async def _judge_pieces(self, row: Row) -> Answer:
        waiting, self._waiting = self._waiting, None
        try:
            if waiting is None:
                judging = self._judging(row)
                awaited = next(judging)
            else:
                _, judging, awaited = waiting
            while True:
                try:
                    result = await self._within_timeout(awaited, row)
                except BaseException as raised:
                    if is_cancelled(raised):
                        raise
                    awaited = judging.throw(raised)
                else:
                    awaited = judging.send(result)
        except StopIteration as end:
            answer: Answer = end.value
            return answer

    def _judging(self, row: Row, begun: tuple[object, ...] = ()) -> Judging:
        """Judge the pieces of a chunk one after another. Yields what has to be awaited.

        The first failure decides, else the least certain verdict.

        Args:
            row: The chunk.
            begun: What `stream_validate` has returned already for the first piece, if anything.
        """
        hold, verdict = self.requirement.hold, None
        if hold:
            row.cover(self.position, 0)
        pieces, error = self._pieces(row)
        if error is not None:
            return self._noted(row, self._despite(error, row.chunk))
        for piece in pieces:
            answer = yield from self._judge_piece(piece, begun)
            begun = ()
            if isinstance(answer, BaseException):
                return answer
            if hold and answer.success == "pass":
                row.cover(self.position, piece.end)
            if verdict is None or _RANK[answer.success] > _RANK[verdict.success]:
                verdict = answer
            if answer.success == "fail":
                break
        return self._noted(row, UNKNOWN if verdict is None else verdict)

    def _judge_piece(self, piece: Chunk, begun: tuple[object, ...]) -> Judging:
        said = self._said(piece)
        try:
            if begun:
                (result,) = begun
            else:
                result = self._validate(said, backend=self._backend, ctx=self._ctx)
            if not isinstance(result, PartialValidationResult) and isawaitable(result):
                result = yield result
            return self._checked(result)
        except GeneratorExit:  # the judgement was given up
            raise
        except BaseException as raised:  # on_error says what it means
            return self._despite(raised, piece)

    def _said(self, piece: Chunk) -> Any:
        """What the requirement gets: the text, with the separator if it is `verbatim`, or the chunk."""
        if not self._verbatim:
            return piece.text
        if self._reads_json and isinstance(piece, JSONDelta) and piece.reading is not None:
            return piece
        return piece.separator + piece.text

    def _pieces(self, row: Row) -> tuple[Sequence[Chunk], BaseException | None]:
        """What of a chunk is judged: all of it, or what the lane's own chunker makes of it."""
        if self._chunker is None:
            return ((row.chunk,) if row.chunk.text else ()), None
        pieces, error, _ = self._cuts[row.position]
        return pieces, error

    def _cut(self, chunk: Chunk, chunker: Chunker) -> _Cut:
        try:
            pieces: Sequence[Chunk] = chunker.feed(chunk.separator + chunk.text)
            if self._nested or not chunk.text:
                pieces = [*pieces, *chunker.flush()]
            if self._base:
                pieces = [shifted(piece, self._base) for piece in pieces]
            return _Cut(pieces, None, None if self._checkpoints is None else copied(chunker))
        except BaseException as error:  # on_error says what it means
            return _Cut((), error, None)

    def _noted(self, row: Row, answer: Answer) -> Answer:
        """Save the lane's state for a repair, then return the answer."""
        cut = self._cuts.pop(row.position, None)
        if self._checkpoints is None or isinstance(answer, BaseException):
            return answer
        if answer.success != "fail":
            state = LaneState(self.requirement, cut and cut.chunker_after, self._base)
            try:
                self._checkpoints.save(self.position, row.chunk.index, state)
            except BaseException as error:  # of the requirement's own __copy__
                return error
        return answer

    def _checked(self, result: object) -> PartialValidationResult:
        """The result, if it is a verdict."""
        if not isinstance(result, PartialValidationResult):
            message = (
                f"stream_validate of {self.requirement.name!r} returned {type(result).__name__}; "
                "return a PartialValidationResult"
            )
            raise ValidatorError(message)
        return result

    def _despite(self, raised: BaseException, piece: Chunk) -> Answer:
        """What `on_error` makes of an exception. What is no `Exception` is returned as it is."""
        if isinstance(raised, asyncio.CancelledError):
            name = self.requirement.name
            raised = ValidatorError(
                f"requirement {name!r} was cancelled from inside as it judged a chunk"
            )
        if self.requirement.on_error == "raise" or not isinstance(raised, Exception):
            return raised
        reason = f"could not judge chunk {piece.index}: {type(raised).__name__}: {raised}"
        return PartialValidationResult(self.requirement.on_error, reason=reason)

    async def _within_timeout(self, awaited: Awaitable[object], row: Row) -> object:
        timeout = self.requirement.timeout
        if timeout is None:
            return await awaited
        try:
            async with asyncio.timeout(timeout) as limit:
                return await awaited
        except TimeoutError:
            if not limit.expired():
                raise
            message = (
                f"requirement {self.requirement.name!r} gave no verdict on chunk {row.chunk.index} "
                f"within {timeout:g} seconds; raise its timeout, or say what that means with "
                "on_error='fail' or 'pass'"
            )
            raise ValidatorTimeoutError(message) from None


def is_cancelled(raised: BaseException) -> bool:
    """Whether an exception is the cancellation of the current task, and not only of its work."""
    if not isinstance(raised, asyncio.CancelledError):
        return False
    me = asyncio.current_task()
    return me is not None and me.cancelling() > 0


class _Cut(NamedTuple):
    """What a lane's own chunker made of one chunk.

    Attributes:
        pieces: The pieces.
        error: What it raised, if it did.
        chunker_after: A copy of the chunker as it was then, where checkpoints are kept.
    """

    pieces: Sequence[Chunk]
    error: BaseException | None
    chunker_after: Chunker | None
