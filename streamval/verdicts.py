"""From verdicts to released chunks: the tri-state merge and the release order.

Plain objects without tasks or observables; the operators `merge_tri_state` and `release` wrap them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamval.chunks import Chunk
    from streamval.results import PartialValidationResult, TriState


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one lane says of one chunk.

    Attributes:
        lane: Position of the requirement, from 0.
        chunk: What was judged.
        result: The tri-state result.
        lanes: How many lanes judge each chunk.
        first: Index of the first chunk that is judged.
        covered: Only from a lane that holds chunks back: the offset up to which its passes
            reach. `None` from any other.
    """

    lane: int
    chunk: Chunk
    result: PartialValidationResult
    lanes: int = 1
    first: int = 0
    covered: int | None = None


@dataclass(frozen=True, slots=True)
class Check:
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


def worst(states: set[TriState]) -> TriState:
    """Fail beats unknown beats pass; of nothing, nothing is known.

    Example:
        >>> worst({"pass", "unknown"})
        'unknown'
    """
    for state in ("fail", "unknown"):
        if state in states:
            return state
    return "pass" if states else "unknown"


class TriStateMerge:
    """Joins the verdicts of all lanes into one check a chunk, in chunk order.

    A chunk is complete when every lane has spoken, or one has failed it. After the first failed
    check nothing more comes out: what is delivered is exactly the chunks before the
    lowest-numbered failing one, whatever the timing.
    """

    def __init__(self) -> None:
        self._open: dict[int, list[Verdict | None]] = {}
        self._next = 0
        self._covered: dict[int, int] = {}
        self._failed = False

    def add(self, verdict: Verdict) -> list[Check]:
        """Take a verdict; return the checks that it completes."""
        if self._failed:
            return []
        self._next = max(self._next, verdict.first)
        row = self._open.setdefault(verdict.chunk.index, [None] * verdict.lanes)
        if row:
            row[verdict.lane] = verdict
        checks = []
        while (ready := self._open.get(self._next)) is not None and _complete(ready):
            del self._open[self._next]
            self._next += 1
            checks.append(self._check(ready, verdict.chunk))
            if checks[-1].success == "fail":
                self._failed = True
                self._open.clear()
                break
        return checks

    def _check(self, row: list[Verdict | None], chunk: Chunk) -> Check:
        given = [verdict for verdict in row if verdict is not None]
        for verdict in given:
            if verdict.covered is not None:
                known = self._covered.get(verdict.lane, 0)
                self._covered[verdict.lane] = max(known, verdict.covered)
        return Check(
            chunk=given[0].chunk if given else chunk,
            success=worst({verdict.result.success for verdict in given}),
            results=tuple(None if verdict is None else verdict.result for verdict in row),
            covered=min(self._covered.values()) if self._covered else None,
        )


def _complete(row: list[Verdict | None]) -> bool:
    return None not in row or any(v is not None and v.result.success == "fail" for v in row)


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
