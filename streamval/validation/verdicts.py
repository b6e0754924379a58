"""From verdicts to checks: the tri-state merge.

Plain objects without tasks or observables; the operators `validate` and `merge_tri_state` use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from streamval.requirements.base import Requirement
from streamval.types.channels import Channel
from streamval.types.chunks import Chunk, CutChunk
from streamval.types.masks import Mask
from streamval.types.notebook import html_of
from streamval.types.results import Failure, PartialValidationResult, TriState, ValidationResult


class Verdict(NamedTuple):
    """One lane's verdict on one chunk.

    Attributes:
        lane: Position of the requirement, from 0.
        chunk: What was judged.
        result: The tri-state result.
        lanes: How many requirements there are.
        asked: How many of them judge the channel of the chunk; by default all.
        position: Position among the judged chunks, from 0; by default the chunk's
            index.
        covered: Only from a lane that holds chunks back: the end of the last piece that passed, 0
            if no piece passed. `None` from any other lane.
        seconds: How long the lane took; `None` from a lane that is never asked.
        requirement: The clone that judged.
        masks: The masks of the result, by their place on the channel.
    """

    lane: int
    chunk: Chunk
    result: PartialValidationResult
    lanes: int = 1
    position: int | None = None
    covered: int | None = None
    seconds: float | None = None
    requirement: Requirement | None = None
    asked: int | None = None
    masks: tuple[Mask, ...] = ()

    @property
    def decides(self) -> bool:
        """Whether the requirement decides: it does not only observe."""
        return self.requirement is None or self.requirement.enforce

    def _repr_html_(self) -> str:
        return html_of(self)


class Check(NamedTuple):
    """The verdict of all lanes together on one chunk.

    Attributes:
        chunk: What was judged; `None` for the final validation of the whole output.
        success: Fail beats unknown beats pass.
        results: The result of each lane, in order; `None` for a lane that was cut off.
        covered: The offset on the chunk's channel up to which no lane holds chunks back; `None` where no
            lane holds, and after a failure, which releases nothing.
        failures: Which requirements failed, and why.
        masks: The masks that these verdicts bring, in this chunk and in chunks that were held back before it.
    """

    chunk: Chunk | None
    success: TriState
    results: tuple[PartialValidationResult | ValidationResult | None, ...] = ()
    covered: int | None = None
    failures: tuple[Failure, ...] = ()
    masks: tuple[Mask, ...] = ()

    def _repr_html_(self) -> str:
        return html_of(self)


def failure_of(
    requirement: Requirement | None,
    result: PartialValidationResult | ValidationResult | None,
    lane: int,
    channel: Channel,
    chunk_index: int | None = None,
) -> Failure | None:
    """Return the failure of a requirement; `None` if it has not failed, or was not asked.

    Args:
        requirement: `None` where it is not known.
        result: Its result for a chunk or the output.
        lane: Its position.
        channel: What was judged.
        chunk_index: The chunk; `None` for the whole output.
    """
    if result is None or not _has_failed(result):
        return None
    name = f"requirement {lane}" if requirement is None else requirement.name
    check_only = requirement is not None and requirement.check_only
    return Failure(name, _why(result), chunk_index, lane, check_only, channel)


def _has_failed(result: PartialValidationResult | ValidationResult) -> bool:
    if isinstance(result, PartialValidationResult):
        return result.success == "fail"
    return not result


def _why(result: PartialValidationResult | ValidationResult) -> str | None:
    error = getattr(result, "error", None)
    if result.reason and error:
        return f"{result.reason} ({error})"
    return result.reason or error


class Row:
    """The verdicts on one chunk so far.

    Args:
        chunk: What is judged.
        results: The result of each lane, in order; `None` for a lane that still has to answer, or does not judge
            this channel.
        missing: How many lanes still have to answer.
        position: Position among the judged chunks, from 0.
        asked: How many lanes judge this channel.
        requirements: In the order of the results; `None` where it is not known.

    Attributes:
        is_whole: Whether each word of the chunk is whole, and it has any: it does not end the stream.
        success: Fail beats unknown beats pass.
        done: Whether every lane has answered, or one has failed the chunk.
        covered: For each lane that holds chunks back, the offset up to which its result is a pass.
        masks: The masks of each lane that has some.
    """

    __slots__ = (
        *("asked", "chunk", "covered", "done", "is_whole", "masks", "missing", "position"),
        *("requirements", "results", "success"),
    )

    def __init__(
        self,
        chunk: Chunk,
        results: list[PartialValidationResult | None],
        missing: int,
        position: int,
        asked: int,
        requirements: Sequence[Requirement | None],
    ) -> None:
        self.chunk = chunk
        self.is_whole = bool(chunk.text) and type(chunk) is not CutChunk
        self.position = position
        self.results = results
        self.missing = missing
        self.asked = asked
        self.requirements = requirements
        self.covered: dict[int, int] | None = None
        self.masks: dict[int, tuple[Mask, ...]] | None = None
        # Results from before any lane was asked are the "unknown" of silent lanes.
        self.success: TriState = "pass" if missing and missing == asked else "unknown"
        self.done = not missing

    def add(self, lane: int, result: PartialValidationResult) -> None:
        """Note a lane's verdict."""
        self.results[lane] = result
        self.missing -= 1
        if result.success != "pass" and self.success != "fail":
            self.success = result.success
        if not self.missing or self.success == "fail":
            self.done = True

    def cover(self, lane: int, end: int) -> None:
        """Note the offset up to which a lane that holds chunks back passes."""
        if self.covered is None:
            self.covered = {}
        self.covered[lane] = end

    def mask(self, lane: int, masks: tuple[Mask, ...]) -> None:
        """Note masks of a lane."""
        if self.masks is None:
            self.masks = {}
        self.masks[lane] = self.masks.get(lane, ()) + masks

    def verdict(self, lane: int, requirement: Requirement, seconds: float | None = None) -> Verdict:
        """Return the verdict of a lane and its requirement, with the seconds that it took."""
        result = self.results[lane]
        assert result is not None
        covered = None if self.covered is None else self.covered.get(lane)
        return Verdict(
            lane,
            self.chunk,
            result,
            len(self.results),
            self.position,
            covered,
            seconds,
            requirement,
            self.asked,
            () if self.masks is None else self.masks.get(lane, ()),
        )


class CheckOrder:
    """Makes checks of rows. The rows have to come in chunk order."""

    def __init__(self) -> None:
        self._covered: dict[Channel, dict[int, int]] = {}

    def check(self, row: Row) -> Check:
        """Return the check of a row that is done."""
        if row.success == "fail":  # a failure releases nothing
            found = (
                failure_of(requirement, result, lane, row.chunk.channel, row.chunk.index)
                for lane, (requirement, result) in enumerate(
                    zip(row.requirements, row.results, strict=True)
                )
            )
            failures = tuple(failure for failure in found if failure is not None)
            return Check(row.chunk, "fail", tuple(row.results), failures=failures)
        reach = None
        if row.covered is not None:
            covered = self._covered.setdefault(row.chunk.channel, {})
            for lane, end in row.covered.items():
                covered[lane] = max(covered.get(lane, 0), end)
            reach = min(covered.values())
        if row.masks is None:
            return Check(row.chunk, row.success, tuple(row.results), reach)
        masks = tuple(chain.from_iterable(row.masks.values()))
        return Check(row.chunk, row.success, tuple(row.results), reach, masks=masks)


class Rows:
    """The chunks that wait for verdicts, in their order, and where judging stops.

    Attributes:
        limit: The position from which on no verdict is wanted; -1 once everything is over, `None`
            before any failure.
        waiting: The rows whose check has not been reported yet.
    """

    __slots__ = ("_count", "_order", "limit", "waiting")

    def __init__(self) -> None:
        self.waiting: list[Row] = []  # an empty deque takes 760 bytes
        self._order = CheckOrder()
        self._count = 0
        self.limit: int | None = None

    def add(
        self,
        chunk: Chunk,
        blank: list[PartialValidationResult | None],
        missing: int,
        asked: int,
        requirements: Sequence[Requirement | None],
    ) -> Row:
        """Make the row of the next chunk; the other arguments as for `Row`."""
        row = Row(chunk, blank.copy(), missing, self._count, asked, requirements)
        self._count += 1
        self.waiting.append(row)
        return row

    def is_over(self, row: Row) -> bool:
        """Return whether no verdict on a row is wanted any more."""
        return self.limit is not None and row.position >= self.limit

    def stop_from(self, failed: Row) -> None:
        """Stop judging at a failed row, and drop the later rows."""
        self.limit = failed.position
        while self.waiting[-1] is not failed:
            self.waiting.pop()

    def end(self) -> None:
        """Drop all rows."""
        self.limit = -1
        self.waiting.clear()

    def next_check(self) -> Check:
        """Remove the first row, which has to be done, and return its check."""
        return self._order.check(self.waiting.pop(0))


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
        if self._failed or not verdict.decides:
            return []
        lane, chunk, result, lanes, position, covered, _, requirement, asked, masks = verdict
        if position is None:
            position = chunk.index
        row = self._rows.get(position)
        if row is None:
            asked = lanes if asked is None else asked
            unknown: list[Requirement | None] = [None] * lanes
            row = Row(chunk, [None] * lanes, asked, position, asked, unknown)
            self._rows[position] = row
        if lane >= 0:
            assert isinstance(row.requirements, list)
            row.requirements[lane] = requirement
            row.add(lane, result)
        if covered is not None:
            row.cover(lane, covered)
        if masks:
            row.mask(lane, masks)
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
