"""The events and results of a job: an event a result, its progress, its outcome."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from streamval.batch.pace import Slowed
from streamval.batch.table import Counts, Kept, Outcome


@dataclass(frozen=True, slots=True)
class RowEvent:
    """A row has its result, and that is on the disk.

    Attributes:
        record: The result, as a line of JSON.
        outcome: ``"valid"``, ``"failed"`` or ``"error"``.
        progress: How far the job has come with it.
    """

    record: bytes = field(repr=False)
    outcome: Outcome
    progress: BatchProgress


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """How far a job has come, since it was started this time.

    Attributes:
        total: Rows to answer this time, at most `limit`; `None` if it is not known yet.
        earlier: Rows that kept their result from earlier starts.
        valid: Rows with a valid result.
        failed: Rows that were never valid.
        errors: Rows that raised.
        tokens: Generated.
        seconds: Since the start.
    """

    total: int | None = None
    earlier: int = 0
    valid: int = 0
    failed: int = 0
    errors: int = 0
    tokens: int = 0
    seconds: float = 0.0

    @property
    def done(self) -> int:
        """Rows that got a result."""
        return self.valid + self.failed + self.errors

    def with_one_more(self, kept: Kept, seconds: float) -> BatchProgress:
        """Return the progress after one more result."""
        return replace(
            self,
            valid=self.valid + (kept.outcome == "valid"),
            failed=self.failed + (kept.outcome == "failed"),
            errors=self.errors + (kept.outcome == "error"),
            tokens=self.tokens + kept.tokens,
            seconds=seconds,
        )


BatchEvent: TypeAlias = "RowEvent | Slowed"

Ended = Literal["done", "limit", "failures", "tokens", "stopped"]


@dataclass(frozen=True, slots=True)
class BatchResult:
    """How a job went.

    Attributes:
        ended: Why it ended: ``"done"``, all rows have a result; ``"limit"``, ``"failures"`` or
            ``"tokens"``, that limit was reached; ``"stopped"``, it was interrupted.
        this_time: The progress since the start.
        in_all: The counts of the table, including earlier starts.
    """

    ended: Ended
    this_time: BatchProgress
    in_all: Counts

    @property
    def success(self) -> bool:
        """Whether all rows have a valid result."""
        return self.ended == "done" and self.in_all.valid == self.in_all.rows
