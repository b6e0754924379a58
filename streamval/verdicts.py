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
        covered: The offset up to which no lane holds chunks back; `None` where none does so.
    """

    chunk: Chunk | None
    success: TriState
    results: tuple[PartialValidationResult | None, ...] = ()
    covered: int | None = None


class TriStateMerge:
    """Joins the verdicts of all lanes into one check a chunk, in chunk order.

    A chunk is complete when every lane has spoken, or one has failed it. After the first failed
    check nothing more comes out: what is delivered is exactly the chunks before the
    lowest-numbered failing one, whatever the timing.
    """

    def __init__(self) -> None:
        self._rows: dict[int, _Row] = {}
        self._next = 0
        self._covered: dict[int, int] = {}
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
            row = self._rows[position] = _Row(chunk, lanes)
        if lanes:
            row.results[lane] = result
            row.missing -= 1
        if covered is not None:
            row.covered[lane] = covered
        if result.success != "pass":
            row.success = "fail" if "fail" in (row.success, result.success) else "unknown"
        if position != self._next or (row.missing and row.success != "fail"):
            return []
        return self._complete_rows()

    def _complete_rows(self) -> list[Check]:
        checks = []
        while (row := self._rows.get(self._next)) and (not row.missing or row.success == "fail"):
            del self._rows[self._next]
            self._next += 1
            for lane, covered in row.covered.items():
                self._covered[lane] = max(self._covered.get(lane, 0), covered)
            reach = min(self._covered.values()) if self._covered else None
            checks.append(Check(row.chunk, row.success, tuple(row.results), reach))
            if row.success == "fail":
                self._failed = True
                self._rows.clear()
        return checks


class _Row:
    """The verdicts on one chunk so far."""

    __slots__ = ("chunk", "covered", "missing", "results", "success")

    def __init__(self, chunk: Chunk, lanes: int) -> None:
        self.chunk = chunk
        self.results: list[PartialValidationResult | None] = [None] * lanes
        self.covered: dict[int, int] = {}
        self.missing = lanes
        self.success: TriState = "pass"


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
            if check.success == "pass":
                return self._take(None)
            return []
        if check.chunk.text:  # the tail check at the end of a stream judges no text of its own
            self._held.append(check.chunk)
        return self._take(check.covered)

    def _take(self, covered: int | None) -> list[Chunk]:
        released = []
        while self._held and (covered is None or self._held[0].end <= covered):
            released.append(self._held.popleft())
        return released
