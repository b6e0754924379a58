"""Runs the lanes side by side: sends each chunk to all lanes, and reports verdicts as they come.

How a chunk is judged (`on_chunk`):

1. A row is made for it. It already holds "unknown" for each silent lane.
2. The plain lanes, whose validators are plain functions, are asked one after another in a loop.
3. If none of them failed the chunk, a task asks the coroutine functions one after another. It starts
   eagerly, so where nothing has to wait, all verdicts are there before `on_chunk` returns. At the
   first lane that has to wait, another task continues with the next lane, so no lane waits for
   another. A lane without a free slot queues the chunk; the task that judges its earlier chunk
   continues with the queued one.
4. Rows that are done become checks, in chunk order. While too many rows wait, the gate is paused.

What to watch for when you change this file:

- A validator, or an observer that gets a verdict, may push a chunk, end the source, or dispose of
  everything, all from inside a call made here. So after each such call the state is read again
  (`Rows.is_over`), and a chunk that is pushed meanwhile waits for its turn (`_unasked`).
- A task never cancels itself: it may be about to report its verdict, and would be interrupted in
  whatever it awaits next.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import copy_context
from dataclasses import replace
from typing import Any, NamedTuple

from streamval.aio.scope import Scope, enter_scope, exit_scope, leave_scope
from streamval.aio.tasks import loop_or_none, no_loop, start_eagerly
from streamval.chunkers.channels import may_be_cut
from streamval.errors import ValidatorError
from streamval.requirements.base import Requirement
from streamval.requirements.schema import ToolCalls
from streamval.types.channels import CHANNELS, Channel
from streamval.types.chunks import Chunk, CutChunk
from streamval.types.context import Context
from streamval.types.results import UNKNOWN, PartialValidationResult
from streamval.types.transcript import Transcript
from streamval.validation.lane import Judgement, Lane, Outcome, SoFar
from streamval.validation.options import Clones, FanOptions
from streamval.validation.verdicts import Check, Row, Rows, Verdict


class FanCallbacks(NamedTuple):
    """Where a fan reports.

    Attributes:
        failed: Called with the exception of the source, a validator or an observer.
        ended: Called once the source has ended and all verdicts are there, with the clones that
            have judged them; with `None` if a chunk has failed.
        on_verdict: Called with each verdict as it comes.
        on_check: Called with each check, in chunk order, up to the first that failed.
        cancel_source: Called at the first failed verdict, even while lanes still judge earlier
            chunks: no more chunks are wanted.
    """

    failed: Callable[[Any], None]
    ended: Callable[[Clones | None], None]
    on_verdict: Callable[[Verdict], None] | None = None
    on_check: Callable[[Check], None] | None = None
    cancel_source: Callable[[], None] | None = None


class ChannelLanes:
    """The lanes that judge one channel.

    Args:
        channel: The channel.
        options: The requirements, and the options of judging.

    Attributes:
        lanes: The lanes, by the position of their requirement.
        clones: The clones by position; `None` for a requirement that does not judge this channel.
        plain: The lanes whose validators are plain functions.
        slow: The lanes that are asked in tasks.
        blank: The results of a chunk before any lane was asked.
        channel: As given.
        missing: How many lanes are asked.
        asked: How many lanes there are.
        last: The last chunk.
        own: The text so far, for `Context.text_so_far`, where nothing else keeps it.
    """

    def __init__(self, channel: Channel, options: FanOptions) -> None:
        self.channel = channel
        self.own: Transcript[Any] | None = None
        so_far: SoFar | None = None
        judged = [
            options.judges(position, channel) for position in range(len(options.requirements))
        ]
        if isinstance(options.ctx, Context) and any(judged):
            if channel in options.said:
                so_far = SoFar(options.said[channel], 0)
            else:
                begin = {"text": options.start, "reasoning": options.reasoning[1]}.get(channel, 0)
                self.own = Transcript("")
                so_far = SoFar(self.own.getvalue, begin)
        lanes = [
            Lane(position, one, options, channel, so_far) if judged[position] else None
            for position, one in enumerate(options.requirements)
        ]
        self.clones = tuple(None if lane is None else lane.requirement for lane in lanes)
        self.blank = [UNKNOWN if lane is not None and lane.silent else None for lane in lanes]
        # Tuples, as most channels have no lanes, and the empty tuple costs nothing.
        self.lanes = tuple(lane for lane in lanes if lane is not None)
        self.plain = tuple(lane for lane in self.lanes if lane.plain and not lane.silent)
        self.slow = tuple(lane for lane in self.lanes if not (lane.plain or lane.silent))
        self.missing = len(self.plain) + len(self.slow)
        self.asked = len(self.lanes)
        self.last: Chunk | None = None


class ClonesOfLanes(Mapping[Channel, tuple[Requirement | None, ...]]):
    """The clones of each channel. Those of a channel on which nothing was written are made when they are asked for."""

    def __init__(self, lanes_on: Callable[[Channel], ChannelLanes]) -> None:
        self._lanes_on = lanes_on

    def __getitem__(self, channel: Channel) -> tuple[Requirement | None, ...]:
        return self._lanes_on(channel).clones

    def __iter__(self) -> Iterator[Channel]:
        return iter(CHANNELS)

    def __len__(self) -> int:
        return len(CHANNELS)


_NO_TOOLS = ToolCalls(())


class Fan:
    """The lanes of one subscription.

    Args:
        options: The requirements, and the options of judging.
        scope: Owns the tasks.
        callbacks: Where to report.
    """

    def __init__(self, options: FanOptions, scope: Scope, callbacks: FanCallbacks) -> None:
        self._options = options
        self._scope = scope
        self._callbacks = callbacks
        # Kept, as asking for it is a system call on Python 3.11, and each chunk needs it.
        self._loop = loop_or_none()
        self._time = time.monotonic if self._loop is None else self._loop.time
        self._channels: dict[Channel, ChannelLanes] = {}
        self._its = self._lanes_on("text")  # the lanes of the last chunk
        if options.on_start is not None:
            options.on_start(ClonesOfLanes(self._lanes_on))
        self._rows = Rows()
        # Validators run outside our scope: what they subscribe to is not ours to close.
        self._context = copy_context()
        self._context.run(leave_scope)
        self._working: dict[asyncio.Task[None], Row] = {}
        self._asking = False
        self._unasked: list[Row] = []
        self._pausing = False
        self._source_ended = False

    @property
    def pending(self) -> int:
        """How many chunks wait for verdicts."""
        return len(self._rows.waiting)

    @property
    def wants_more(self) -> bool:
        """Whether chunks are still judged: none has failed, and it was not stopped."""
        return self._rows.limit is None

    def _lanes_on(self, channel: Channel) -> ChannelLanes:
        """Return the lanes of a channel; they are made with its first chunk, as most runs have text alone."""
        its = self._channels.get(channel)
        if its is None:
            its = self._channels[channel] = ChannelLanes(channel, self._options)
            if self._loop is None and its.slow:  # functions need none
                raise no_loop()
        return its

    # What arrives

    def on_chunk(self, chunk: Chunk) -> None:
        """Judge a chunk."""
        rows = self._rows
        if rows.limit is not None:
            return
        its = self._its
        if chunk.channel != its.channel:
            its = self._enter(chunk.channel)
            if rows.limit is not None:
                return
        its.last = chunk
        if its.own is not None and its.missing and isinstance(chunk.text, str):
            its.own.write(chunk.separator + chunk.text)
            its.own.compact()
        row = rows.add(chunk, its.blank, its.missing, its.asked, its.clones)
        if self._asking:  # a validator has pushed it: it waits for its turn
            self._unasked.append(row)
            return
        self._asking = True
        try:
            self._ask(row, its)
            while self._unasked:
                row = self._unasked.pop(0)
                self._ask(row, self._channels[row.chunk.channel])
        finally:
            self._asking = False
        self._settle()
        if rows.waiting:  # a lane has to wait for something
            if not self._pausing and len(rows.waiting) >= self._options.max_pending_chunks:
                self._pausing = True
                self._scope.gate.pause()
            self._scope.gate.yield_turn()

    def on_completed(self) -> None:
        """Judge the text that lanes still hold, then end: no more chunks will come."""
        for channel in CHANNELS[1::-1]:  # reasoning, then text
            self._judge_tail(channel)
        self._source_ended = True
        self._settle()

    def _enter(self, channel: Channel) -> ChannelLanes:
        """Begin with another channel: reasoning that lanes still hold is judged before what follows it.

        But a word that may go on waits, as that of a text does.
        """
        left = self._its
        if (
            channel == "tool"
            and self._options.only is None
            and not any(one.reads_tools for one in self._options.requirements)
        ):
            self._refuse_tools()
        its = self._lanes_on(channel)
        if left.channel == "reasoning":
            thought = left.last
            is_cut = type(thought) is CutChunk
            if thought is not None and self._options.chunking is None:  # a delta
                is_cut = may_be_cut(thought.text)
            if not is_cut:
                self._judge_tail(left.channel)
        self._its = its
        return its

    def _refuse_tools(self) -> None:
        """Add a lane that fails each call, as no tools were offered."""
        self._options = replace(
            self._options, requirements=(*self._options.requirements, _NO_TOOLS)
        )
        self._channels.pop("tool", None)

    def _judge_tail(self, channel: Channel) -> None:
        """Judge the text that lanes still hold: they get a chunk without text."""
        options = self._options
        index, end = (options.index, options.start) if channel == "text" else options.reasoning
        if not index and channel not in self._channels:  # nothing was written there
            return
        its = self._lanes_on(channel)
        if its.last is not None:
            index, end = its.last.index + 1, its.last.end
        if index and self._rows.limit is None and any(lane.keeps_a_tail for lane in its.lanes):
            tail = its.last or Chunk("", 0, 0, 0, channel=channel)
            nothing = tail.text[:0]  # of text, or of sound
            self._its = its
            self.on_chunk(
                replace(tail, text=nothing, index=index, start=end, end=end, separator=nothing)
            )

    def on_error(self, error: BaseException) -> None:
        """Stop, because the source or a validator has raised."""
        self.stop()
        self._callbacks.failed(error)

    def stop(self) -> None:
        """Stop: no verdict is needed any more."""
        self._rows.end()
        self._stop_at(-1)
        if self._pausing:
            self._resume()

    # Asking

    def _ask(self, row: Row, its: ChannelLanes) -> None:
        if self._callbacks.on_verdict is not None:
            self._report_silent(row, its, self._callbacks.on_verdict)
        slow = its.slow  # before `_ask_plain`, which may replace this list by a longer one
        if its.plain:
            token = enter_scope(None)  # as `_context` does for the tasks
            try:
                self._ask_plain(row, its)
            finally:
                exit_scope(token)
        if slow and not self._rows.is_over(row):
            admitted = [lane for lane in slow if lane.admit(row)]
            self._ask_slow(row, admitted[::-1])

    def _report_silent(
        self, row: Row, its: ChannelLanes, on_verdict: Callable[[Verdict], None]
    ) -> None:
        """Report the lanes that are never asked, so that every lane has a verdict."""
        if not its.lanes:
            on_verdict(Verdict(-1, row.chunk, UNKNOWN, len(its.clones), row.position, asked=0))
        for lane in its.lanes:
            if lane.silent:
                on_verdict(row.verdict(lane.position, lane.requirement))

    def _ask_plain(self, row: Row, its: ChannelLanes) -> None:
        """Ask plain functions, one after another."""
        quiet, rows = self._callbacks.on_verdict is None, self._rows
        for lane in its.plain:
            if rows.limit is not None and rows.is_over(row):
                return
            asked_at = 0.0 if quiet else self._time()
            outcome = lane.judge(row)
            if type(outcome) is PartialValidationResult and quiet and outcome.success != "fail":
                row.add(lane.position, outcome)  # the short way of `_on_outcome`
            elif isinstance(outcome, Judgement):
                self._no_longer_plain(lane, its)
                self._ask_slow(row, [lane], outcome)
            else:
                self._on_outcome(lane, row, outcome, asked_at)

    def _no_longer_plain(self, lane: Lane, its: ChannelLanes) -> None:
        """Ask a lane in tasks from now on, because its plain function returned something to await.

        It takes the slot of the judgement that has been started.
        """
        lane.plain = False
        lane.slots -= 1
        its.plain = tuple(other for other in its.plain if other is not lane)
        its.slow = tuple(sorted([*its.slow, lane], key=lambda one: one.position))

    def _ask_slow(self, row: Row, lanes: list[Lane], started: Judgement | None = None) -> None:
        """Ask lanes in tasks: where one has to wait, another task continues with the next lane.

        Args:
            row: The chunk.
            lanes: The lanes, the next one last. The tasks remove them.
            started: The judgement of the next lane, if it has been started.
        """
        if self._loop is None:
            if started is not None:
                started.close()
            self.on_error(no_loop())
            return
        while lanes and not self._rows.is_over(row):
            work = self._serve(row, lanes, started)
            task = start_eagerly(work, self._loop, self._context.copy())
            if not task.done():
                self._scope.adopt(task)
            started = None
        if started is not None:
            started.close()
        if self._rows.limit == -1:
            # stop() was called inside an eager first step, where `_stop_at` spares the current task.
            self._stop_at(-1)

    async def _serve(self, row: Row, lanes: list[Lane], started: Judgement | None) -> None:
        """Ask lanes about a chunk, then each about the chunks that it queued meanwhile. Runs as a task."""
        me = asyncio.current_task(self._loop)
        assert me is not None
        try:
            # When a lane first waits, `_ask_slow` starts another task for the rest of `lanes`. So behind
            # an await `lanes` is empty, and this task serves one lane alone.
            while lanes and not self._rows.is_over(row):
                lane = lanes.pop()
                todo: Row | None = row
                while todo is not None:
                    self._working[me] = todo
                    asked_at = 0.0 if self._callbacks.on_verdict is None else self._time()
                    outcome, started = started or lane.judge(todo), None
                    if isinstance(outcome, Judgement):
                        outcome = await lane.finish(outcome)
                    self._on_outcome(lane, todo, outcome, asked_at)
                    todo = lane.next_queued()
        except asyncio.CancelledError:
            # Ends quietly: a cancelled task keeps its traceback, and so all of this subscription,
            # until the garbage collector comes.
            pass
        except BaseException as error:  # of an observer downstream
            self.on_error(error)
        finally:
            self._working.pop(me, None)
        if me.cancelling() and not self._scope.has_cancelled(me):
            self.on_error(
                ValidatorError("a validator, or other code, cancelled the task that judges chunks")
            )
        self._scope.disown(me)

    # Outcomes

    def _on_outcome(self, lane: Lane, row: Row, outcome: Outcome, asked_at: float) -> None:
        """Take the outcome of a lane that was asked at `asked_at`: a verdict, or an exception."""
        if self._rows.limit is not None and self._rows.is_over(row):
            return
        if not isinstance(outcome, PartialValidationResult):
            self.on_error(outcome)
            return
        row.add(lane.position, outcome)
        if outcome.success == "fail":
            self._stop_from(row)
        on_verdict = self._callbacks.on_verdict
        settles = row.done and not self._asking  # else `on_chunk` settles, after all lanes
        if settles or on_verdict is not None:
            with self._scope.current():  # validators run outside it
                if on_verdict is not None:
                    seconds = self._time() - asked_at
                    on_verdict(row.verdict(lane.position, lane.requirement, seconds))
                if settles:
                    self._settle()

    def _stop_from(self, failed: Row) -> None:
        """Stop judging the failed chunk and later ones. Earlier ones still need a verdict."""
        self._rows.stop_from(failed)
        self._stop_at(failed.position)
        if self._callbacks.cancel_source is not None:
            self._source_ended = True
            self._callbacks.cancel_source()

    def _settle(self) -> None:
        """Report the checks of rows that are done; end once the source has ended and no row waits."""
        waiting = self._rows.waiting
        while waiting and waiting[0].done:
            check = self._rows.next_check()
            if self._callbacks.on_check is not None:
                self._callbacks.on_check(check)
        if self._pausing:
            self._resume()
        if self._source_ended and not waiting and self._rows.limit != -1:
            failed = self._rows.limit is not None
            self._rows.end()
            self._stop_at(-1)
            self._callbacks.ended(None if failed else ClonesOfLanes(self._lanes_on))

    def _stop_at(self, position: int) -> None:
        """Stop judging the row at `position` and later ones. Below 0, stop judging all rows."""
        for its in self._channels.values():
            for lane in its.slow:
                lane.stop_at(position)
        if self._working:
            me = asyncio.current_task()
            for task, row in list(self._working.items()):
                if row.position >= position and task is not me:
                    self._scope.cancel(task)

    def _resume(self) -> None:
        if len(self._rows.waiting) < self._options.max_pending_chunks:
            self._pausing = False
            self._scope.gate.resume()
