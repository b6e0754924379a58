"""A lane: one clone of a requirement, and the chunks that wait for it.

`streamval.validation.fan` decides when a lane is asked. The lane decides how: about the whole chunk
or about pieces that its own chunker cuts, within a timeout, and what an exception means.

A judgement starts without a task, as most validators are plain functions that answer at once:

    judge(row) ──▶ a verdict, or an exception that ends the run
              └──▶ a Judgement: the validator returned something to await.
                   The fan then runs `finish(judgement)` in a task.

Both go through `_advance`, which asks about one piece after another until a piece failed, no piece is
left, or something has to be awaited; `finish` awaits it, then enters `_advance` again. So one loop serves
plain functions and coroutine functions. The only exception is a shortcut in `judge`, measured there.

What to watch for when you change this file:

- A validator may do anything while it is called, even stop the run. The lane changes its own state
  only before and after the call, never during it.
- An own chunker has to see the chunks in order, also where they are judged at the same time. So a
  chunk is cut when it arrives: by `admit`, or for a plain lane by `judge`, which runs at once.
- `asyncio.CancelledError` has two meanings. If the current task is being cancelled (`is_cancelled`),
  it has to be raised in the task. Otherwise the validator's own work was cancelled, which is an error.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from inspect import isawaitable, iscoroutinefunction
from types import CoroutineType
from typing import Any, NamedTuple, TypeAlias

from streamval.backends.secrets import without_secrets
from streamval.chunkers.base import shifted
from streamval.chunkers.chunking import chunking_on, finer
from streamval.chunkers.json import JSONChunk, JSONDelta
from streamval.chunkers.tool import ToolChunk
from streamval.errors import ValidatorError, ValidatorTimeoutError
from streamval.requirements.base import Requirement
from streamval.requirements.chunk_rule import ChunkRule
from streamval.types.channels import Channel
from streamval.types.chunks import Chunk, CutChunk
from streamval.types.masks import Mask, applied
from streamval.types.results import UNKNOWN, PartialValidationResult
from streamval.validation.checkpoints import LaneChunker, LaneState, fresh
from streamval.validation.json_prose import JSONProse, ToolProse, copied
from streamval.validation.options import FanOptions
from streamval.validation.verdicts import Row

UNMASKABLE = "a part of it has to be masked, and cannot be: it was delivered, or is no text"
_RANK = {"pass": 0, "unknown": 1, "fail": 2}

Outcome: TypeAlias = "PartialValidationResult | BaseException"
"""A verdict, or the exception that ends the run."""
_OUTCOMES = (PartialValidationResult, BaseException)


class SoFar:
    """The text of a channel up to and including the piece that a lane judges.

    Args:
        source: Returns the text that the channel has by now.
        begin: The offset at which that begins.
        end: The offset at which the piece ends; set for each piece.
    """

    __slots__ = ("begin", "end", "source")

    def __init__(self, source: Callable[[], Any], begin: int, end: int = 0) -> None:
        self.source, self.begin, self.end = source, begin, end

    def __call__(self) -> Any:
        """Return the text."""
        return self.source()[: self.end - self.begin]


_NOTHING_SO_FAR = SoFar(str, 0)  # of lanes without a context


class Cut(NamedTuple):
    """The pieces of one chunk that a lane judges.

    Attributes:
        pieces: The chunk itself, or the pieces from the lane's own chunker.
        error: The chunker's exception, if it raised.
        chunker_after: A copy of the chunker as it was then, where checkpoints are kept.
        settled: Of JSON, the offset up to which it has been judged once these pieces have.
    """

    pieces: Sequence[Chunk]
    error: BaseException | None = None
    chunker_after: LaneChunker | None = None
    settled: int | None = None


class Judgement:
    """One lane's verdict on one chunk, while it is being reached.

    Attributes:
        row: The chunk.
        left: The pieces that have not been judged yet.
        chunker_after: A copy of the lane's own chunker behind this chunk, for a checkpoint.
        piece: The piece that is being judged.
        awaited: The awaitable that the validator returned for it.
        outcome: The outcome so far: a failure, else the least certain verdict; or an exception.
    """

    __slots__ = ("awaited", "chunker_after", "left", "outcome", "piece", "row")

    awaited: Awaitable[object]

    def __init__(self, row: Row, left: Iterator[Chunk], chunker_after: LaneChunker | None) -> None:
        self.row = row
        self.left = left
        self.piece = row.chunk
        self.chunker_after = chunker_after
        self.outcome: Outcome | None = None

    def close(self) -> None:
        """Close the awaitable, as no verdict is wanted any more."""
        if hasattr(self.awaited, "close"):
            self.awaited.close()


class Lane:
    """One requirement's clone, and the chunks that wait for it.

    Args:
        position: Which lane this is, from 0.
        requirement: The original, which is cloned here.
        options: The options of all lanes.
        channel: What it judges.
        so_far: Returns the text of the channel up to a piece; `None` without a context.

    Attributes:
        requirement: The clone.
        silent: Whether it has no `stream_validate` of its own. Such a lane is never asked, and each
            chunk is unknown.
        plain: Whether its `stream_validate` is a plain function, which is called without a task.
        slots: How many more chunks may be judged at once.
        queue: The chunks that wait for a slot.
    """

    def __init__(
        self,
        position: int,
        requirement: Requirement,
        options: FanOptions,
        channel: Channel = "text",
        so_far: SoFar | None = None,
    ) -> None:
        checkpoints = options.checkpoints
        chunking = chunking_on(channel, options.chunking)
        base = {"text": options.start, "reasoning": options.reasoning[1]}.get(channel, 0)
        state = (checkpoints and checkpoints.start(position, channel)) or fresh(
            requirement, base, chunking, channel
        )
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
        self.queue: deque[Row] | None = None  # until it is needed: an empty one takes 760 bytes
        self._validate = validate
        self._verbatim = clone.verbatim
        self._backend, self._ctx = options.backend, options.ctx
        # A lane that judges one piece after another has one context. Else each piece has its own. A rule of chunks
        # has none.
        takes_context = getattr(validate, "__func__", None) is not ChunkRule.stream_validate
        self._so_far = SoFar(so_far.source, so_far.begin) if so_far else _NOTHING_SO_FAR
        self._context_each = takes_context and so_far is not None and clone.max_concurrency != 1
        if self._ctx is not None and so_far is not None and takes_context:
            self._ctx = replace(self._ctx, _said=self._so_far)
        self._checkpoints = checkpoints
        self._chunker = state.chunker
        self._base = state.base
        # Whether a piece of its own chunker never reaches across the pipeline's chunks.
        self._nested = isinstance(state.chunker, ToolProse) or (
            not isinstance(state.chunker, JSONProse) and finer(requirement.chunking, chunking)
        )
        self._was_cut = False  # the last chunk, perhaps inside of a word
        self._last_word: Chunk | None = (
            None  # of a chunk that was cut, where there is no chunker that keeps it
        )
        self._cuts: dict[int, Cut] = {}
        self._asked_to = self._passed_to = 0
        self._one_piece = not (
            self._chunker or clone.hold or clone.masks or checkpoints is not None
        )
        judge_string = getattr(clone, "judge_string", None)
        if judge_string is not None and isinstance(state.chunker, (JSONProse, ToolProse)):
            self._validate = lambda text, **_: judge_string(text)
            self._verbatim = False

    @property
    def keeps_a_tail(self) -> bool:
        """Whether its own chunker may still return a piece at the end of the stream."""
        if self._chunker is None:
            return self._last_word is not None
        return not self._nested or self._was_cut

    # When it is asked

    def admit(self, row: Row) -> bool:
        """Take a slot for a chunk; if none is free, queue the chunk.

        For lanes that are not plain: called once for each chunk, in their order.
        """
        if self._chunker is not None or not row.is_whole or self._last_word is not None:
            self._cuts[row.position] = self._cut(row.chunk, self._chunker)
        if not self.slots:
            if self.queue is None:
                self.queue = deque()
            self.queue.append(row)
            return False
        self.slots -= 1
        return True

    def next_queued(self) -> Row | None:
        """Return the next chunk of the queue, to be judged with the same slot, or free the slot."""
        if self.queue:
            return self.queue.popleft()
        self.slots += 1
        return None

    def stop_at(self, position: int) -> None:
        """Drop the queued chunks from `position` on: they need no verdict any more."""
        while self.queue and self.queue[-1].position >= position:
            self.queue.pop()

    # How it is asked

    def judge(self, row: Row) -> Outcome | Judgement:
        """Start to judge a chunk. Return the outcome, or a judgement that has to be finished.

        A chunk without text is the end of the stream: what the lane's own chunker holds is judged.
        """
        if self._one_piece and row.is_whole:
            # A shortcut for one piece, if nothing has to be noted. Without these lines
            # a chunk of four plain lanes costs a quarter more (48 µs in place of 39, Python 3.11).
            asked = self._ask(row, row.chunk)
            if type(asked) is PartialValidationResult and not asked.masks:
                return asked
            if isinstance(asked, _OUTCOMES):
                return self._unmasked(asked)
            judgement = Judgement(row, iter(()), None)
            judgement.awaited = asked
            return judgement
        cut = self._cuts.pop(row.position, None) or self._cut(row.chunk, self._chunker)
        judgement = Judgement(row, iter(cut.pieces), cut.chunker_after)
        if self.requirement.hold:
            row.cover(self.position, self._settled_by(row.chunk))
        elif cut.settled is not None:
            row.cover(self.position, cut.settled)
        if cut.error is not None:
            judgement.outcome = self._outcome_of(cut.error, row.chunk)
        return self._advance(judgement)

    async def finish(self, judgement: Judgement) -> Outcome:
        """Await the verdict on the current piece, and judge the pieces that are left.

        Raises:
            asyncio.CancelledError: If the task is cancelled.
        """
        timeout = self.requirement.timeout
        while True:
            try:
                if timeout is None:
                    result = await judgement.awaited
                else:
                    result = await self._within(timeout, judgement)
                outcome: Outcome = self._checked(result)
            except BaseException as raised:
                if is_cancelled(raised):
                    raise
                outcome = self._outcome_of(raised, judgement.row.chunk)
            if self._one_piece:
                return self._unmasked(outcome)
            over = self._note(judgement, outcome)
            rest = self._save_and_conclude(judgement) if over else self._advance(judgement)
            if not isinstance(rest, Judgement):
                return rest

    def _advance(self, judgement: Judgement) -> Outcome | Judgement:
        """Judge the pieces that are left, up to the first whose verdict has to be awaited."""
        for piece in judgement.left:
            asked = self._ask(judgement.row, piece)
            if not isinstance(asked, _OUTCOMES):
                judgement.piece, judgement.awaited = piece, asked
                return judgement
            judgement.piece = piece
            if self._note(judgement, asked):
                break
        return self._save_and_conclude(judgement)

    def _ask(self, row: Row, piece: Chunk) -> Outcome | Awaitable[object]:
        """Call the validator. Return its outcome, or the awaitable that it returned."""
        try:
            argument = self._argument_for(piece) if self._verbatim else piece.text
            ctx = self._ctx
            if self._context_each:
                ctx = self._context_at(piece)
            else:
                self._so_far.end = piece.end
            result: object = self._validate(argument, backend=self._backend, ctx=ctx)
            kind = type(result)
            if kind is PartialValidationResult or kind is CoroutineType:  # most results are
                return result  # type: ignore[return-value]
            if not isinstance(result, PartialValidationResult) and isawaitable(result):
                return result  # a verdict can be awaited too, but need not be
            return self._checked(result)
        except BaseException as raised:  # never the task's cancellation: nothing was awaited here
            return self._outcome_of(raised, row.chunk)

    def _context_at(self, piece: Chunk) -> Any:
        """Return the context of a piece, which another piece does not change."""
        if self._ctx is None:
            return None
        known = self._so_far
        return replace(self._ctx, _said=SoFar(known.source, known.begin, piece.end))

    def _argument_for(self, piece: Chunk) -> Any:
        """Return the argument of a `verbatim` validator: text with its separator, or parsed JSON."""
        reads_json = self.requirement.reads_json
        if self.requirement.reads_tools and isinstance(piece, ToolChunk):
            return piece
        if reads_json and isinstance(piece, JSONDelta) and piece.reading is not None:
            return piece
        return piece.separator + piece.text

    def _cut(self, chunk: Chunk, chunker: LaneChunker | None) -> Cut:
        if chunker is None:
            if self._cuts_words(chunk):
                return Cut(self._whole_words(chunk))
            return Cut((chunk,) if chunk.text else ())
        try:
            if isinstance(chunker, (JSONProse, ToolProse)):
                pieces: Sequence[Chunk] = chunker.take(chunk)
            else:
                pieces = chunker.feed(chunk.separator + chunk.text)
            self._was_cut = type(chunk) is CutChunk
            if (self._nested and not self._was_cut) or not chunk.text:
                pieces = [*pieces, *chunker.flush()]
            if self._base and not isinstance(chunker, (JSONProse, ToolProse)):
                pieces = [shifted(piece, self._base) for piece in pieces]
            after = None if self._checkpoints is None else copied(chunker)
            settled = chunker.settled if isinstance(chunker, JSONProse) else None
            return Cut(pieces, None, after, settled)
        except BaseException as error:  # `on_error` decides the outcome
            return Cut((), error)

    def _cuts_words(self, chunk: Chunk) -> bool:
        """Return whether the last word of a chunk waits, or that of the chunk before."""
        return self._chunker is None and (type(chunk) is CutChunk or self._last_word is not None)

    def _whole_words(self, chunk: Chunk) -> list[Chunk]:
        """Return the pieces of a chunk, and the last word of the one before, without a last word that may be cut."""
        self._one_piece = False  # from now on
        pieces = [chunk] if chunk.text else []
        if (kept := self._last_word) is not None:
            goes_on = pieces and not chunk.separator
            pieces = [_joined(kept, chunk)] if goes_on else [kept, *pieces]
            self._last_word = None
        if type(chunk) is CutChunk and chunk.text:
            self._last_word = pieces.pop()
        return pieces

    def _note(self, judgement: Judgement, outcome: Outcome) -> bool:
        """Note the outcome of a piece. Return whether it decides the whole chunk."""
        if isinstance(outcome, PartialValidationResult) and outcome.masks:
            outcome = self._masked(judgement, outcome)
        if isinstance(outcome, BaseException):
            judgement.outcome = outcome
            return True
        if self.requirement.hold:
            self._cover(judgement, outcome)
        known = judgement.outcome
        if not isinstance(known, PartialValidationResult) or (
            _RANK[outcome.success] > _RANK[known.success]
        ):
            judgement.outcome = outcome
        return outcome.success == "fail"

    def _cover(self, judgement: Judgement, outcome: PartialValidationResult) -> None:
        """Note how far the lane has passed, and whether it holds anything back."""
        end = judgement.piece.end
        self._asked_to = max(self._asked_to, end)
        if outcome.success == "pass":
            self._passed_to = max(self._passed_to, end)
            judgement.row.cover(self.position, end)
        self.requirement.holds_back = self._passed_to < self._asked_to

    def _masked(self, judgement: Judgement, outcome: PartialValidationResult) -> Outcome:
        """Note the masks of a verdict by their place on the channel. Return a failure where that cannot be."""
        piece = judgement.piece
        if not self.requirement.masks:
            return self._unmasked(outcome)
        base = piece.start - (len(piece.separator) if self._verbatim else 0)
        masks = [Mask(base + start, base + end, instead) for start, end, instead in outcome.masks]
        if isinstance(piece, JSONChunk) and isinstance(piece.value, str) and not piece.is_key:
            start, end = piece.within or (piece.start, piece.end)
            value = applied(piece.text, [Mask(*mask) for mask in outcome.masks])
            call = piece.call if piece.within else None
            masks = [Mask(start, end, json.dumps(value, ensure_ascii=False), call)]
        elif (
            isinstance(self._chunker, (JSONProse, ToolProse))
            and (isinstance(piece, JSONDelta) or piece.end - piece.start != len(piece.text))
        ) or min(mask.start for mask in masks) < self._delivered_to(judgement.row.chunk):
            return PartialValidationResult("fail", reason=UNMASKABLE)
        judgement.row.mask(self.position, tuple(masks))
        return outcome

    def _unmasked(self, outcome: Outcome) -> Outcome:
        """Return the outcome of a requirement that does not mask; an error if it does."""
        if isinstance(outcome, PartialValidationResult) and outcome.masks:
            name = self.requirement.name
            return ValidatorError(
                f"requirement {name!r} masks text; set `masks = True` on its class"
            )
        return outcome

    def _delivered_to(self, chunk: Chunk) -> int:
        """Return the offset up to which text may have been delivered."""
        return self._passed_to if self.requirement.hold else chunk.start - len(chunk.separator)

    def _settled_by(self, chunk: Chunk) -> int:
        """Return the offset up to which nothing is held back before a chunk is judged.

        That is none of it: nothing has passed yet. But the end of a call has nothing to judge.
        """
        is_end = isinstance(chunk, ToolChunk) and chunk.part == "end"
        return chunk.end if is_end and not self.requirement.holds_back else 0

    def _save_and_conclude(self, judgement: Judgement) -> Outcome:
        """Save the lane's state for a repair, unless the chunk failed. Return the outcome."""
        outcome = UNKNOWN if judgement.outcome is None else judgement.outcome
        checkpoints = self._checkpoints
        if checkpoints is None or isinstance(outcome, BaseException) or outcome.success == "fail":
            return outcome
        state = LaneState(self.requirement, judgement.chunker_after, self._base)
        try:
            checkpoints.save(self.position, judgement.row.chunk, state)
        except BaseException as error:  # of the requirement's own __copy__
            return error
        return outcome

    def _checked(self, result: object) -> PartialValidationResult:
        """Return the result if it is a verdict.

        Raises:
            ValidatorError: If it is not.
        """
        if isinstance(result, PartialValidationResult):
            return result
        raise ValidatorError(
            f"stream_validate of {self.requirement.name!r} returned {type(result).__name__}; "
            "return a PartialValidationResult"
        )

    def _outcome_of(self, raised: BaseException, chunk: Chunk) -> Outcome:
        """Return the outcome that `on_error` makes of an exception."""
        if isinstance(raised, asyncio.CancelledError):
            name = self.requirement.name
            raised = ValidatorError(
                f"requirement {name!r} was cancelled from inside as it judged a chunk"
            )
        decides = self.requirement.on_error
        if not isinstance(raised, Exception) or (decides == "raise" and self.requirement.enforce):
            return raised
        named = without_secrets(f"{type(raised).__name__}: {raised}")
        reason = f"could not judge chunk {chunk.index}: {named}"
        return PartialValidationResult("unknown" if decides == "raise" else decides, reason=reason)

    async def _within(self, timeout: float, judgement: Judgement) -> object:
        try:
            async with asyncio.timeout(timeout) as limit:
                return await judgement.awaited
        except TimeoutError:
            if not limit.expired():
                raise
            raise ValidatorTimeoutError(
                f"requirement {self.requirement.name!r} gave no verdict on chunk "
                f"{judgement.row.chunk.index} within {timeout:g} seconds; raise its timeout, or set "
                "on_error='fail' or 'pass'"
            ) from None


def _joined(word: Chunk, chunk: Chunk) -> Chunk:
    """Return a chunk with the beginning of its first word, which another channel has cut off."""
    return replace(chunk, text=word.text + chunk.text, start=word.start, separator=word.separator)


def is_cancelled(raised: BaseException) -> bool:
    """Return whether an exception is the cancellation of the current task, and not only of its work."""
    if not isinstance(raised, asyncio.CancelledError):
        return False
    me = asyncio.current_task()
    return me is not None and me.cancelling() > 0
