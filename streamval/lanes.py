"""Lanes: one clone of a requirement each, judging chunks beside the others.

A lane is what a requirement is asked through, and the rows that wait for it; `streamval.fan` has
the workers that ask.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from streamval.checkpoints import LaneState, copied
from streamval.chunkers.base import shifted
from streamval.errors import ValidatorError, ValidatorTimeoutError
from streamval.results import PartialValidationResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamval.backends.base import Backend
    from streamval.checkpoints import Checkpoints
    from streamval.chunkers.base import Chunker
    from streamval.chunks import Chunk
    from streamval.context import Context
    from streamval.verdicts import Row

UNKNOWN = PartialValidationResult("unknown")
_RANK = {"pass": 0, "unknown": 1, "fail": 2}


class Lane:
    """One requirement's clone, and the chunks that wait for it.

    Args:
        position: Which lane this is, from 0.
        state: What it goes on from.
        nested: Whether its own chunks never reach across the pipeline's, so that each of those
            ends one of its own.
        backend: Handed to the requirement.
        ctx: Handed to the requirement.
        checkpoints: Where to keep the state after each chunk, if anywhere.

    Attributes:
        places: How many more chunks may be judged at once.
        waiting: The chunks that wait for a place.
    """

    def __init__(
        self,
        position: int,
        state: LaneState,
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
        self._nested = nested
        self._backend = backend
        self._ctx = ctx
        self._checkpoints = checkpoints
        self._alone = not (self._chunker or self.requirement.timeout or self.requirement.hold)
        self.places = self.requirement.max_concurrency
        self.waiting: deque[Row] = deque()
        self._cuts: dict[int, _Cut] = {}

    @property
    def keeps_a_tail(self) -> bool:
        """Whether the end of the stream may still bring out a chunk of its own."""
        return self._chunker is not None and not self._nested

    def takes(self, row: Row) -> bool:
        """Whether a chunk can be judged now, in a place that is to be given back; else it waits.

        Called once for each chunk, in their order, which is when it is cut anew.
        """
        if self._chunker is not None:
            self._cuts[row.position] = self._cut(row.chunk, self._chunker)
        if not self.places:
            self.waiting.append(row)
            return False
        self.places -= 1
        return True

    def next(self) -> Row | None:
        """For whoever has a place: the chunk that waits the longest, else the place is free."""
        if self.waiting:
            return self.waiting.popleft()
        self.places += 1
        return None

    def stop_at(self, position: int) -> None:
        """The row at `position` and later ones need no verdict any more."""
        while self.waiting and self.waiting[-1].position >= position:
            self.waiting.pop()

    async def judge(self, row: Row) -> PartialValidationResult | Exception:
        """Judge a chunk; one without text is the end of the stream: the tail is due.

        Returns:
            The verdict; or what the validator raised, if that is to end the run.
        """
        chunk = row.chunk
        verdict: PartialValidationResult | Exception
        try:
            if self._alone and chunk.text:
                text = chunk.separator + chunk.text if self._verbatim else chunk.text
                result = await self._validate(text, backend=self._backend, ctx=self._ctx)
                if type(result) is not PartialValidationResult:
                    self._checked(result)
                verdict = result
            else:
                verdict = await self._judge_pieces(row)
        except (Exception, asyncio.CancelledError) as raised:
            if _is_cancelled(raised):
                raise
            verdict = self._despite(raised, chunk)
            if isinstance(verdict, Exception):
                return verdict
        if self._checkpoints is None and self._chunker is None:
            return verdict
        return self._noted(row, verdict)

    def _noted(
        self, row: Row, verdict: PartialValidationResult
    ) -> PartialValidationResult | Exception:
        """The verdict, with the state after it kept for a repair; or what copying that raised."""
        cut = self._cuts.pop(row.position, None)
        if self._checkpoints is not None and verdict.success != "fail":
            state = LaneState(self.requirement, cut and cut.chunker_after, self._base)
            try:
                self._checkpoints.save(self.position, row.chunk.index, state)
            except Exception as error:  # noqa: BLE001  of the requirement's own __copy__
                return error
        return verdict

    def _despite(self, raised: BaseException, piece: Chunk) -> PartialValidationResult | Exception:
        """What the requirement's `on_error` makes of what judging `piece` raised."""
        error = raised if isinstance(raised, Exception) else self._cancelled_from_inside()
        if self.requirement.on_error == "raise":
            return error
        reason = f"could not judge chunk {piece.index}: {type(error).__name__}: {error}"
        return PartialValidationResult(self.requirement.on_error, reason=reason)

    def _cancelled_from_inside(self) -> ValidatorError:
        name = self.requirement.name
        return ValidatorError(
            f"requirement {name!r} was cancelled from inside as it judged a chunk"
        )

    def _cut(self, chunk: Chunk, chunker: Chunker) -> _Cut:
        """What this lane's own chunker makes of a chunk."""
        try:
            pieces: Sequence[Chunk] = chunker.feed(chunk.separator + chunk.text)
            if self._nested or not chunk.text:
                pieces = [*pieces, *chunker.flush()]
            if self._base:
                pieces = [shifted(piece, self._base) for piece in pieces]
            return _Cut(pieces, None, None if self._checkpoints is None else copied(chunker))
        except Exception as error:  # noqa: BLE001  raised where the chunk is judged
            return _Cut((), error, None)

    async def _judge_pieces(self, row: Row) -> PartialValidationResult:
        """Judge all pieces of a chunk; the first failure decides, else the least certain one."""
        pieces: Sequence[Chunk] = (row.chunk,) if row.chunk.text else ()
        if self._chunker is not None:
            pieces, error, _ = self._cuts[row.position]
            if error is not None:
                raise error
        if self.requirement.hold:
            row.cover(self.position, 0)
        verdict = None
        for piece in pieces:
            result = await self._judge_piece(piece)
            if isinstance(result, Exception):
                raise result
            if self.requirement.hold and result.success == "pass":
                row.cover(self.position, piece.end)
            if verdict is None or _RANK[result.success] > _RANK[verdict.success]:
                verdict = result
            if result.success == "fail":
                break
        return verdict or UNKNOWN

    async def _judge_piece(self, piece: Chunk) -> PartialValidationResult | Exception:
        try:
            return self._checked(await self._ask(piece))
        except (Exception, asyncio.CancelledError) as raised:
            if _is_cancelled(raised):
                raise
            return self._despite(raised, piece)

    def _checked(self, result: object) -> PartialValidationResult:
        """The result, if it is one."""
        if not isinstance(result, PartialValidationResult):
            message = (
                f"stream_validate of {self.requirement.name!r} returned {type(result).__name__}; "
                "return a PartialValidationResult"
            )
            raise ValidatorError(message)
        return result

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


def _is_cancelled(raised: BaseException) -> bool:
    """Whether the task is being cancelled, and not only its work from inside."""
    me = asyncio.current_task()
    return isinstance(raised, asyncio.CancelledError) and me is not None and me.cancelling() > 0


class _Cut(NamedTuple):
    """What a lane's own chunker made of one chunk.

    Attributes:
        pieces: The pieces.
        error: What it raised, if it did.
        chunker_after: A copy of the chunker as it was then, where checkpoints are kept.
    """

    pieces: Sequence[Chunk]
    error: Exception | None
    chunker_after: Chunker | None
