"""`Timeline`: when things happened in a run, for the drawings."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import NamedTuple

from streamval.events import (
    BaseEvent,
    ChunkEvent,
    CompletedEvent,
    FullValidationEvent,
    QuickCheckEvent,
    ReasoningEvent,
    RetryEvent,
    StreamingDoneEvent,
    TokenEvent,
    ToolCallEvent,
    VerdictEvent,
)
from streamval.types.channels import Channel
from streamval.types.results import TriState

MOST = 1e9
"""Seconds, about thirty years: a longer time means a broken recording."""


def elapsed(timestamp: float, began: float, before: float) -> float:
    """Return the seconds since a run began. They never decrease, even in a broken recording.

    Example:
        >>> elapsed(12.0, 10.0, 1.0), elapsed(3.0, 10.0, 1.0), elapsed(float("nan"), 10.0, 1.0)
        (2.0, 1.0, 1.0)
    """
    seconds = timestamp - began
    return seconds if before < seconds < MOST else before


WHOLE = -1
"""In place of a chunk: the whole output."""


class Judged(NamedTuple):
    """One lane's verdict on one chunk, or on the whole: asked and answered, in seconds since the run began.

    `asked` is `None` where it is not known: the pipeline sent no `VerdictEvent`s.
    """

    lane: int
    chunk: int
    verdict: TriState
    reason: str
    asked: float | None
    answered: float


class Checked(NamedTuple):
    """All lanes together have decided on a chunk."""

    chunk: int
    verdict: TriState
    at: float


class Released(NamedTuple):
    """A chunk was delivered."""

    chunk: int
    text: str
    at: float


class Beside(NamedTuple):
    """A chunk of reasoning or a call of a tool: delivered, or failed."""

    channel: Channel
    verdict: TriState
    said: str
    at: float


@dataclass(slots=True)
class AttemptTimes:
    """The times of one attempt, in seconds since the run began.

    Attributes:
        number: Which, from 1.
        began: When it began.
        ended: When it was over; `None` while it runs.
        deltas: When each delta came.
        judged: The verdicts, as they came.
        checked: The checks, in chunk order.
        released: The delivered chunks.
        beside: What was delivered and what failed on the other channels.
        done: When the model ended normally.
        closed: When the backend was closed.
        reason: Why it was rejected.
        mode: How the next attempt begins.
        kept: How many chunks the next one keeps.
    """

    number: int
    began: float
    ended: float | None = None
    deltas: list[float] = field(default_factory=list)
    judged: list[Judged] = field(default_factory=list)
    checked: list[Checked] = field(default_factory=list)
    released: list[Released] = field(default_factory=list)
    beside: list[Beside] = field(default_factory=list)
    done: float | None = None
    closed: float | None = None
    reason: str = ""
    mode: str | None = None
    kept: int | None = None

    @property
    def failed_at(self) -> float | None:
        """The time of the first verdict that failed a chunk; `None` if no chunk failed."""
        times = [
            judged.answered
            for judged in self.judged
            if judged.verdict == "fail" and judged.chunk != WHOLE
        ]
        times += [checked.at for checked in self.checked if checked.verdict == "fail"]
        times += [one.at for one in self.beside if one.verdict == "fail"]
        return min(times, default=None)

    @property
    def cut_after(self) -> float | None:
        """Seconds from the verdict that failed a chunk until the backend was closed.

        `None` where no chunk failed, or the backend had come to its end before.
        """
        failed = self.failed_at
        if failed is None or self.closed is None or self.closed < failed:
            return None
        return self.closed - failed


class Timeline:
    """The times of a run, attempt by attempt. A fold of its events, pure as `RunView` is.

    Attributes:
        attempts: The attempts, in order.
        seconds: From the first event to the last.
    """

    def __init__(self) -> None:
        self.attempts: list[AttemptTimes] = []
        self.seconds = 0.0
        self._began: float | None = None
        self._has_verdicts = False

    def apply(self, event: BaseEvent) -> None:
        """Take in the next event."""
        at = self._since(event.timestamp)
        if not self.attempts:
            self.attempts.append(AttemptTimes(event.attempt, at))
        attempt = self.attempts[-1]
        match event:
            case TokenEvent():
                attempt.deltas.append(at)
            case VerdictEvent():
                self._on_verdict(attempt, event, at)
            case QuickCheckEvent():
                self._on_check(attempt, event, at)
            case ChunkEvent() | ReasoningEvent() | ToolCallEvent():
                self._on_delivered(attempt, event, at)
            case StreamingDoneEvent():
                attempt.done = at
            case FullValidationEvent():
                self._on_validation(attempt, event, at)
            case RetryEvent():
                self._end(attempt, at, event.closed_at)
                attempt.reason, attempt.mode = event.reason, event.mode
                attempt.kept = event.keep_chunks
                self.attempts.append(AttemptTimes(event.attempt, at))
            case CompletedEvent():
                self._end(attempt, at, event.closed_at)

    def _on_delivered(
        self, attempt: AttemptTimes, event: ChunkEvent | ReasoningEvent | ToolCallEvent, at: float
    ) -> None:
        if isinstance(event, ChunkEvent):
            attempt.released.append(Released(event.chunk_index, event.text, at))
        elif isinstance(event, ReasoningEvent):
            attempt.beside.append(Beside("reasoning", "pass", event.text, at))
        else:
            said = f"{event.name}({event.raw})"
            attempt.beside.append(Beside("tool", "pass", said, at))

    def _since(self, timestamp: float) -> float:
        """Return the seconds since the run began. They never decrease, even in a broken recording."""
        if self._began is None and isfinite(timestamp):
            self._began = timestamp
        if self._began is not None:
            self.seconds = elapsed(timestamp, self._began, self.seconds)
        return self.seconds

    def _end(self, attempt: AttemptTimes, at: float, closed_at: float | None) -> None:
        attempt.ended = at
        if closed_at is not None and isfinite(closed_at) and self._began is not None:
            attempt.closed = min(elapsed(closed_at, self._began, attempt.began), at)

    def _on_verdict(self, attempt: AttemptTimes, event: VerdictEvent, at: float) -> None:
        self._has_verdicts = True
        if event.channel != "text":
            return
        seconds = event.seconds if 0 <= event.seconds < MOST else 0.0
        asked = max(at - seconds, attempt.began)
        said = event.verdict, event.reason or ""
        attempt.judged.append(Judged(event.lane, event.chunk_index, *said, asked, at))

    def _on_validation(self, attempt: AttemptTimes, event: FullValidationEvent, at: float) -> None:
        for lane, result in enumerate(event.results):
            verdict: TriState = "pass" if result else "fail"
            why = result.reason or result.error or ""
            attempt.judged.append(Judged(lane, WHOLE, verdict, why, None, at))

    def _on_check(self, attempt: AttemptTimes, event: QuickCheckEvent, at: float) -> None:
        if event.channel != "text":
            if not event.passed:
                reasons = [r.reason for r in event.results if r is not None and r.success == "fail"]
                why = "; ".join(filter(None, reasons))
                attempt.beside.append(Beside(event.channel, "fail", why, at))
            return
        attempt.checked.append(Checked(event.chunk_index, event.verdict, at))
        if self._has_verdicts:
            return
        for lane, result in enumerate(event.results):
            if result is not None:
                said = result.success, result.reason or ""
                attempt.judged.append(Judged(lane, event.chunk_index, *said, None, at))
