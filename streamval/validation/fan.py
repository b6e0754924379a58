"""The lanes side by side: each chunk to all of them, and their verdicts back as they come.

How a chunk is judged (`on_chunk`):

1. A row is made for it. It already holds "unknown" for each silent lane.
2. The plain lanes, whose validators are plain functions, are asked one after another in a loop.
3. If none of them failed the chunk, one task asks the coroutine functions one after another. At the
   first that has to wait, another task goes on with the rest, so that no lane waits for another.
   On Python 3.12 and later these tasks start eagerly: where nothing has to wait, all answers are in
   before `on_chunk` returns. On 3.11 they start in the next turn of the loop.
   A lane that has no slot free queues the chunk, and is asked about it when a slot is given back.
4. Rows that are done become checks, in chunk order. While too many rows wait, the gate is paused.

What to watch for when you change this file:

- A validator, or an observer that gets a verdict, may push a chunk, end the source, or dispose of
  everything, all from inside of a call made here. So after each such call the state is read anew
  (`_is_over`), and a chunk that is pushed meanwhile waits its turn (`_unasked`).
- A task never cancels itself: it may be about to report its verdict, and would be interrupted in
  whatever it awaits next.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import copy_context
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from streamval.aio.scope import enter_scope, exit_scope, leave_scope
from streamval.aio.tasks import EAGER, running_loop, start_eagerly
from streamval.errors import ValidatorError
from streamval.types.chunks import Chunk
from streamval.types.results import PartialValidationResult
from streamval.validation.lane import UNKNOWN, Lane
from streamval.validation.turns import Turns, next_turns
from streamval.validation.verdicts import CheckOrder, Row, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamval.aio.scope import Scope
    from streamval.validation.lane import Answer
    from streamval.validation.options import FanOptions
    from streamval.validation.verdicts import Check


class Fan:
    """The lanes of one subscription, and the rows of verdicts that they fill.

    Args:
        options: Who judges, and how.
        scope: Owns the tasks.
        failed: Called with the exception of the source or a validator.
        ended: Called once the source has ended and all verdicts are in.
        on_verdict: Called with each verdict, as they come, with the seconds that the lane took.
        on_check: Called with each check, in chunk order, up to the first that failed.
        cancel_source: Called at the first failed verdict, even while lanes still judge earlier
            chunks: no more chunks are wanted.
    """

    def __init__(
        self,
        options: FanOptions,
        scope: Scope,
        failed: Callable[[Any], None],
        ended: Callable[[], None],
        *,
        on_verdict: Callable[[Verdict], None] | None = None,
        on_check: Callable[[Check], None] | None = None,
        cancel_source: Callable[[], None] | None = None,
    ) -> None:
        # Kept, as asking for it is a system call on Python 3.11, and each chunk needs it.
        self._loop = running_loop()
        self._clock = self._loop.time
        self._scope = scope
        self._gate = scope.gate
        self._failed = failed
        self._ended = ended
        self._on_verdict = on_verdict
        self._on_check = on_check
        self._cancel_source = cancel_source
        self._max_pending = options.max_pending_chunks
        self._began_at = (options.index, options.start)

        self.lanes = [Lane(n, judge, options) for n, judge in enumerate(options.requirements)]
        if options.on_start is not None:
            options.on_start(tuple(lane.requirement for lane in self.lanes))
        asked = [lane for lane in self.lanes if not lane.silent]
        self._plain = [lane for lane in asked if lane.plain]
        self._slow = [lane for lane in asked if not lane.plain]
        self._blank: list[PartialValidationResult | None] = [
            UNKNOWN if lane.silent else None for lane in self.lanes
        ]
        self._missing = len(asked)
        # Validators run outside our scope: what they subscribe to is not ours to close.
        self._context = copy_context()
        self._context.run(leave_scope)

        self._rows: deque[Row] = deque()
        self._count = 0
        self._last: Chunk | None = None
        self._order = CheckOrder()
        self._unasked: list[Row] = []
        self._asking = False
        self._working: dict[asyncio.Task[None], Row] = {}
        self._queued: list[Lane] = []
        self._limit: int | None = None  # no verdict from this row on; -1 once all is over
        self._pausing = False
        self._source_ended = False

    # What comes

    def on_chunk(self, chunk: Chunk) -> None:
        """Judge a chunk."""
        if self._limit is not None:
            return
        row = Row(chunk, self._blank.copy(), self._missing, self._count)
        self._count += 1
        self._last = chunk
        self._rows.append(row)
        if self._asking:  # a validator has pushed it: its turn comes
            self._unasked.append(row)
            return
        self._asking = True
        try:
            self._ask(row)
            while self._unasked:
                self._ask(self._unasked.pop(0))
        finally:
            self._asking = False
        self._settle()
        if self._rows:  # a lane has to wait for something
            if not self._pausing and len(self._rows) >= self._max_pending:
                self._pausing = True
                self._gate.pause()
            self._gate.yield_turn()

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

    def on_error(self, error: BaseException) -> None:
        """The source, or a validator, has raised."""
        self.stop()
        self._failed(error)

    def stop(self) -> None:
        """No verdict is wanted any more."""
        self._limit = -1
        self._rows.clear()
        self._stop_at(-1)
        self._resume()

    # Asking

    def _ask(self, row: Row) -> None:
        if self._on_verdict is not None:
            self._tell_silent(row)
        slow = self._slow  # taken before `_ask_plain`, which may add a lane to it
        if self._plain:
            token = enter_scope(None)  # as `_context` does for the tasks
            try:
                self._ask_plain(row)
            finally:
                exit_scope(token)
        if slow and not self._is_over(row):
            asked = [lane for lane in slow if lane.admit(row)]
            self._ask_slow(Turns(row, asked[::-1]))

    def _tell_silent(self, row: Row) -> None:
        """Verdicts of lanes that are never asked, for those who want one from each lane."""
        assert self._on_verdict is not None
        if not self.lanes:
            self._on_verdict(Verdict(-1, row.chunk, UNKNOWN, 0, row.position))
        for lane in self.lanes:
            if lane.silent:
                self._on_verdict(row.verdict(lane.position))

    def _ask_plain(self, row: Row) -> None:
        """Ask plain functions, one after another."""
        quiet = self._on_verdict is None
        for lane in self._plain:
            if self._limit is not None and self._is_over(row):
                return
            began = 0.0 if quiet else self._clock()
            answer = lane.judge_now(row)
            if type(answer) is PartialValidationResult and quiet and answer.success != "fail":
                row.add(lane.position, answer)  # fast path of `_on_answer`
                continue
            if answer is None:
                self._no_longer_plain(lane)
                self._ask_slow(Turns(row, [lane]))
            else:
                self._on_answer(lane, row, answer, began)

    def _no_longer_plain(self, lane: Lane) -> None:
        """A plain function has returned something to be awaited: from now on tasks ask it."""
        lane.plain = False
        lane.slots -= 1
        self._plain = [other for other in self._plain if other is not lane]
        self._slow = sorted([*self._slow, lane], key=lambda one: one.position)

    def _ask_slow(self, turns: Turns) -> None:
        """Ask coroutine functions in tasks: where one has to wait, another goes on with the rest."""
        while turns.lanes and not self._is_over(turns.row):
            task = start_eagerly(self._take_turns(turns), self._loop, self._context.copy())
            if not task.done():
                self._scope.adopt(task)
            if not EAGER:
                return  # the task hands over by itself
        if self._limit == -1:  # a validator disposed of it all; `_stop_at` skipped its own task
            self._stop_at(-1)

    async def _take_turns(self, turns: Turns) -> None:
        """As a task: ask the lanes that no other task has asked yet."""
        me = asyncio.current_task(self._loop)
        assert me is not None
        handover = None
        todo: Turns | None = turns
        try:
            while todo is not None:
                row = self._working[me] = todo.row
                if len(todo.lanes) > 1 and not (EAGER and todo is turns):
                    # Nothing sees that this task waits. If it does, this starts another one.
                    handover = self._loop.call_soon(self._ask_slow, todo)
                while todo.lanes and not self._is_over(row):
                    lane = todo.lanes.pop()
                    began = 0.0 if self._on_verdict is None else self._clock()
                    self._on_answer(lane, row, await lane.judge(row), began)
                    self._rest(lane)
                if handover is not None:
                    handover.cancel()
                todo = next_turns(self._queued)
        except asyncio.CancelledError:
            # Ends quietly: a cancelled task keeps its traceback, and so all of this subscription,
            # until the garbage collector comes.
            pass
        except BaseException as error:  # of an observer downstream
            self.on_error(error)
        finally:
            self._working.pop(me, None)
            if handover is not None:
                handover.cancel()
        if me.cancelling() and not self._scope.has_cancelled(me):
            self.on_error(_cancelled_by_others())
        self._scope.disown(me)

    def _rest(self, lane: Lane) -> None:
        """A lane has answered: it gives back its slot, or is asked about the next chunk."""
        if not lane.queue:
            lane.slots += 1
            return
        if not self._queued:  # should this task wait for another lane: soon, without it
            self._loop.call_soon(self._ask_queued)
        self._queued.append(lane)

    def _ask_queued(self) -> None:
        while (turns := next_turns(self._queued)) is not None:
            self._ask_slow(turns)

    # Answers

    def _on_answer(self, lane: Lane, row: Row, answer: Answer, began: float) -> None:
        """A lane has judged a chunk since `began`, or raised what ends the run."""
        if self._limit is not None and self._is_over(row):
            return
        if isinstance(answer, PartialValidationResult):
            row.add(lane.position, answer)
        else:
            self.on_error(answer)
            return
        if answer.success == "fail":
            self._stop_after(row)
        settles = row.done and not self._asking  # else `on_chunk` settles, after all lanes
        if settles or self._on_verdict is not None:
            with self._scope.current():  # validators run outside of it
                if self._on_verdict is not None:
                    self._on_verdict(row.verdict(lane.position, self._clock() - began))
                if settles:
                    self._settle()

    def _stop_after(self, failed: Row) -> None:
        """A chunk has failed: it and later ones need no verdict, earlier ones still do."""
        self._limit = failed.position
        while self._rows[-1] is not failed:
            self._rows.pop()
        self._stop_at(self._limit)
        if self._cancel_source is not None:
            self._source_ended = True
            self._cancel_source()

    def _settle(self) -> None:
        """Make checks of the rows that are done, up to the first that is not."""
        rows = self._rows
        while rows and rows[0].done:
            row = rows.popleft()
            if self._on_check is not None:
                self._on_check(self._order.check(row))
        self._resume()
        if self._source_ended and not rows and self._limit != -1:
            self._limit = -1
            self._stop_at(-1)
            self._ended()

    def _is_over(self, row: Row) -> bool:
        """Whether no verdict on a row is wanted any more."""
        return self._limit is not None and row.position >= self._limit

    def _stop_at(self, position: int) -> None:
        """The row at `position` and later ones need no verdict. Below 0, no row does."""
        for lane in self._slow:
            lane.stop_at(position)
        if self._working:
            me = asyncio.current_task(self._loop)
            for task, row in list(self._working.items()):
                if row.position >= position and task is not me:
                    self._scope.cancel(task)

    def _resume(self) -> None:
        if self._pausing and len(self._rows) < self._max_pending:
            self._pausing = False
            self._gate.resume()


def _cancelled_by_others() -> ValidatorError:
    return ValidatorError("a validator, or other code, cancelled the task that judges chunks")
