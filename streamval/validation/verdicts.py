"""From verdicts to checks: the tri-state merge.

Plain objects without tasks or observables. The operators `validate` and `merge_tri_state` wrap them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from streamval.types.shown import html_of

if TYPE_CHECKING:
    from streamval.types.chunks import Chunk
    from streamval.types.results import PartialValidationResult, TriState


class Verdict(NamedTuple):
    """What one lane says of one chunk.

    Attributes:
        lane: Position of the requirement, from 0.
        chunk: What was judged.
        result: The tri-state result.
        lanes: How many lanes judge each chunk.
        position: Which chunk this is of those that are judged, from 0; by default the chunk's
            index.
        covered: Only from a lane that holds chunks back: the end of the last piece that passed, 0
            if none did. `None` from any other lane.
        seconds: How long the lane took, from when it was asked; `None` from one that is never asked.
    """

    lane: int
    chunk: Chunk
    result: PartialValidationResult
    lanes: int = 1
    position: int | None = None
    covered: int | None = None
    seconds: float | None = None

    def _repr_html_(self) -> str:
        return html_of(self)


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

    def _repr_html_(self) -> str:
        return html_of(self)


class Row:
    """The verdicts on one chunk so far.

    Args:
        chunk: What is judged.
        results: One a lane, in their order: `None` for a lane that still has to answer.
        missing: How many lanes still have to answer.
        position: Which chunk this is of those that are judged, from 0.

    Attributes:
        success: Fail beats unknown beats pass.
        done: Whether every lane has answered, or one has failed the chunk.
        covered: For each lane that holds chunks back, the offset up to which its result is a pass.
    """

    __slots__ = ("chunk", "covered", "done", "missing", "position", "results", "success")

    def __init__(
        self,
        chunk: Chunk,
        results: list[PartialValidationResult | None],
        missing: int,
        position: int,
    ) -> None:
        self.chunk = chunk
        self.position = position
        self.results = results
        self.missing = missing
        self.covered: dict[int, int] | None = None
        # A lane that has answered before the row was made is a silent one: unknown.
        self.success: TriState = "pass" if missing and missing == len(results) else "unknown"
        self.done = not missing

    def add(self, lane: int, result: PartialValidationResult) -> None:
        """Note a lane's answer."""
        self.results[lane] = result
        self.missing -= 1
        if result.success != "pass" and self.success != "fail":
            self.success = result.success
        if not self.missing or self.success == "fail":
            self.done = True

    def cover(self, lane: int, end: int) -> None:
        """Note that a lane that holds chunks back passes everything up to an offset."""
        if self.covered is None:
            self.covered = {}
        self.covered[lane] = end

    def verdict(self, lane: int, seconds: float | None = None) -> Verdict:
        """What a lane has answered, and how long that took."""
        result = self.results[lane]
        assert result is not None
        covered = None if self.covered is None else self.covered.get(lane)
        return Verdict(lane, self.chunk, result, len(self.results), self.position, covered, seconds)


class CheckOrder:
    """Makes checks of rows. The rows have to come in chunk order."""

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

    A chunk is complete when every lane has answered, or one has failed it. The last check is that
    of the first failing chunk, whatever the timing.
    """

    def __init__(self) -> None:
        self._rows: dict[int, Row] = {}
        self._next = 0
        self._order = CheckOrder()
        self._failed = False

    def add(self, verdict: Verdict) -> list[Check]:
        """Take a verdict. Return the checks that it completes."""
        if self._failed:
            return []
        lane, chunk, result, lanes, position, covered, _ = verdict
        if position is None:
            position = chunk.index
        row = self._rows.get(position)
        if row is None:
            row = self._rows[position] = Row(chunk, [None] * lanes, lanes, position)
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
