"""From verdicts to released chunks: the tri-state merge and the release order.

Plain objects without tasks or observables; the operators `merge_tri_state` and `release` wrap them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from streamval.chunks import Chunk
    from streamval.results import PartialValidationResult, TriState


class Verdict(NamedTuple):
    """What one lane says of one chunk.

    Attributes:
        lane: Position of the requirement, from 0.
        chunk: What was judged.
        result: The tri-state result.
        lanes: How many lanes judge each chunk.
        position: Which chunk this is of those that are judged, from 0; by default the chunk's
            index.
        covered: Only from a lane that holds chunks back: the offset up to which this result is
            a pass, 0 if it is none. `None` from any other lane.
    """

    lane: int
    chunk: Chunk
    result: PartialValidationResult
    lanes: int = 1
    position: int | None = None
    covered: int | None = None


class Check(NamedTuple):
    """What all lanes together say of one chunk.

    Attributes:
        chunk: What was judged; `None` for the final validation of the whole output.
        success: Fail beats unknown beats pass.
        results: One a lane, in their order; `None` for a lane that was cut off.
        covered: The offset up to which no lane holds chunks back; `None` where none does so, and
            of a failure, which releases nothing.
    """

    chunk: Chunk | None
    success: TriState
    results: tuple[PartialValidationResult | None, ...] = ()
    covered: int | None = None


class Row:
    """The verdicts on one chunk so far.

    Args:
        chunk: What is judged.
        lanes: How many judge it.
        position: Which chunk this is of those that are judged, from 0.

    Attributes:
        success: Fail beats unknown beats pass.
        done: Whether every lane has spoken, or one has failed the chunk.
        covered: Of each lane that holds chunks back, the offset up to which its result is a pass.
    """

    __slots__ = ("_missing", "chunk", "covered", "done", "position", "results", "success")

    def __init__(self, chunk: Chunk, lanes: int, position: int) -> None:
        self.chunk = chunk
        self.position = position
        self.results: list[PartialValidationResult | None] = [None] * lanes
        self.covered: dict[int, int] | None = None
        self.success: TriState = "pass" if lanes else "unknown"
        self.done = not lanes
        self._missing = lanes

    def add(self, lane: int, result: PartialValidationResult) -> None:
        """A lane has spoken."""
        self.results[lane] = result
        self._missing -= 1
        if result.success != "pass" and self.success != "fail":
            self.success = result.success
        if not self._missing or self.success == "fail":
            self.done = True

    def cover(self, lane: int, end: int) -> None:
        """A lane that holds chunks back passes all up to there."""
        if self.covered is None:
            self.covered = {}
        self.covered[lane] = end

    def verdict(self, lane: int) -> Verdict:
        """What a lane has said."""
        result = self.results[lane]
        assert result is not None
        covered = None if self.covered is None else self.covered.get(lane)
        return Verdict(lane, self.chunk, result, len(self.results), self.position, covered)


class CheckOrder:
    """Makes checks of rows, which have to come in chunk order."""

    def __init__(self) -> None:
        self._covered: dict[int, int] = {}

    def check(self, row: Row) -> Check:
        """The check of a row that is done."""
        reach = None
        if row.covered is not None and row.success != "fail":  # a failure releases nothing
            for lane, end in row.covered.items():
                self._covered[lane] = max(self._covered.get(lane, 0), end)
            reach = min(self._covered.values())
        return Check(row.chunk, row.success, tuple(row.results), reach)


class TriStateMerge:
    """Joins the verdicts of all lanes into one check a chunk, in chunk order.

    A chunk is complete when every lane has spoken, or one has failed it. After the first failed
    check nothing more comes out: what is delivered is exactly the chunks before the
    lowest-numbered failing one, whatever the timing.
    """

    def __init__(self) -> None:
        self._rows: dict[int, Row] = {}
        self._next = 0
        self._order = CheckOrder()
        self._failed = False

    def add(self, verdict: Verdict) -> list[Check]:
        """Take a verdict; return the checks that it completes."""
        if self._failed:
            return []
        lane, chunk, result, lanes, position, covered = verdict
        if position is None:
            position = chunk.index
        row = self._rows.get(position)
        if row is None:
            row = self._rows[position] = Row(chunk, lanes, position)
        if lanes:
            row.add(lane, result)
        if covered is not None:
            row.cover(lane, covered)
        return self._completed()

    def _completed(self) -> list[Check]:
        checks = []
        while (row := self._rows.get(self._next)) and row.done:
            del self._rows[self._next]
            self._next += 1
            checks.append(self._order.check(row))
            if row.success == "fail":
                self._failed = True
                self._rows.clear()
        return checks


class ReleaseOrder:
    """Decides which chunks may go to the consumer.

    Without a lane that holds, each chunk that did not fail goes at once. A holding lane keeps an
    unknown chunk, and all after it, until a later pass covers them or the final validation passes.
    """

    def __init__(self) -> None:
        self._held: deque[Chunk] = deque()

    def check(self, check: Check) -> list[Chunk]:
        """Take a check; return the chunks that may go now, in order."""
        if check.success == "fail":
            self._held.clear()
            return []
        if check.chunk is None:
            return self._take(None) if check.success == "pass" else []
        if check.chunk.text:  # the tail check at the end of a stream judges no text of its own
            if check.covered is None and not self._held:
                return [check.chunk]
            self._held.append(check.chunk)
        return self._take(check.covered)

    def _take(self, covered: int | None) -> list[Chunk]:
        released = []
        while self._held and (covered is None or self._held[0].end <= covered):
            released.append(self._held.popleft())
        return released
