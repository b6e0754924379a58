"""`RunView`: the events of a run, folded into what a display shows."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from math import isfinite
from typing import Any, ClassVar, Literal, NotRequired, TypeAlias, TypedDict

from streamval.events import (
    BaseEvent,
    ChunkEvent,
    CompletedEvent,
    ErrorEvent,
    FullValidationEvent,
    QuickCheckEvent,
    ReasoningEvent,
    RetryEvent,
    StageEvent,
    StartedEvent,
    StreamingDoneEvent,
    TokenEvent,
    ToolCallEvent,
    VerdictEvent,
)
from streamval.types.channels import Channel
from streamval.types.results import TriState
from streamval.validation.final_check import REFUSED
from streamval.view.timeline import MOST, Timeline, elapsed

RunState: TypeAlias = Literal["waiting", "running", "valid", "invalid", "error", "cut short"]
"""`"cut short"`: the run was cancelled or abandoned before it succeeded or failed."""


class Segment(TypedDict):
    """A piece of the text: a chunk, or the rejected text that begins with a failed chunk.

    `bytes` is the size of a chunk of sound, whose `text` is empty.
    """

    text: str
    chunk: int | None
    verdict: TriState | None
    bytes: NotRequired[int]


class CallView(TypedDict):
    """A call of a tool that was delivered. `stands` is false once a repair has taken it back."""

    name: str
    raw: str
    attempt: int
    stands: bool


class ReasoningView(TypedDict):
    """What the model thinks.

    `text` was delivered and stands; `pending` is not judged yet; `rejected` failed in the last attempt, or was
    taken back.
    """

    text: str
    pending: str
    rejected: str


class RowView(TypedDict):
    """One requirement: its last verdict, the chunks that it judged, and how long that took in all."""

    name: str
    state: Literal["waiting", "pass", "fail", "unknown"]
    judged: int
    reason: str
    seconds: float | None


class AttemptView(TypedDict):
    """One attempt. `taken_back` is the range of segments that were taken back when it ended."""

    number: int
    reason: str
    mode: str | None
    taken_back: list[int] | None


class StageView(TypedDict):
    """A stage of a contract that is over."""

    stage: str | None
    status: str
    reason: str | None


class Snapshot(TypedDict):
    """The state of a run for displays: JSON that is not changed afterwards.

    Attributes:
        state: The state of the run.
        text: All segments that were ever written, in order. New segments are added at the end;
            `attempts` has the ranges that were taken back.
        pending: The text after them that is not released yet: its verdicts are missing, or a
            requirement holds it back. Empty where the pipeline sends no tokens.
        reasoning: What the model thinks.
        calls: The calls of tools that were ever delivered, in order.
        calling: The call of a tool that is being written, as raw text. Empty where the pipeline sends no tokens.
        thinking: Whether it runs, and the last piece was reasoning.
        rows: The requirements, by their position.
        attempts: From the first.
        stages: The stages of its contract so far.
        stage: The stage in which it runs.
        quiet: Whether it runs, and its attempt has written nothing yet.
        prompt: What was asked, where the display knows it.
        seconds: From the first event to the last.
        usage: The tokens, once it is over.
        error: What ended it, if an exception did.
        finish_reason: Why the model stopped, in the backend's words.
    """

    run_id: str
    model: str
    chunking: str
    state: RunState
    text: list[Segment]
    pending: str
    reasoning: ReasoningView
    calls: list[CallView]
    calling: str
    thinking: bool
    rows: list[RowView]
    attempts: list[AttemptView]
    stages: list[StageView]
    stage: str | None
    quiet: bool
    prompt: str
    seconds: float
    usage: dict[str, Any] | None
    error: str | None
    finish_reason: str | None


class RunView:
    """Folds the events of a run into the state that displays show. Pure: no clock, no input or output.

    It shows one run at a time. Another `StartedEvent` begins a new one, as in a contract, whose stages
    stay. Events of other runs in between are left out.

    Args:
        timeline: Keep the times of everything as well, for `draw`. They grow with the stream, as the
            text does.
        prompt: What was asked; events do not say.

    Attributes:
        timeline: The times, or `None`.

    Example:
        >>> import asyncio
        >>> from streamval import Pipeline, ScriptedBackend
        >>> view = RunView()
        >>> async def main():
        ...     run = Pipeline(ScriptedBackend("All is well.")).start("How is it?")
        ...     run.subscribe(view.apply)
        ...     await run
        >>> asyncio.run(main())
        >>> view.text, view.snapshot()["state"]
        ('All is well.', 'valid')
    """

    def __init__(self, *, timeline: bool = False, prompt: str = "") -> None:
        self.timeline = Timeline() if timeline else None
        self._prompt = prompt
        self._stages: list[StageView] = []
        self._contract: str | None = None
        self._clear()

    def _clear(self) -> None:
        self._run_id = self._model = self._chunking = ""
        self._state: RunState = "waiting"
        self._stage: str | None = None
        self._segments: list[Segment] = []
        self._standing: list[int] = []  # positions of the segments that stand
        self._written = 0
        self._pending = _Pending()
        self._verdicts: dict[int, TriState] = {}  # of chunks of text that are not released yet
        self._thoughts: list[str] = []  # the chunks of reasoning that stand
        self._thinking = _Pending()
        self._rejected_thought = ""
        self._calls: list[CallView] = []
        self._calling: list[str] = []
        self._last: Channel = "text"  # the channel of the last piece
        self._rows: list[RowView] = []
        self._attempts: list[AttemptView] = []
        self._began = self._now = 0.0
        self._usage: dict[str, Any] | None = None
        self._error: str | None = None
        self._finish_reason: str | None = None
        self._failed = False
        self._quiet = True

    # What a display reads

    @property
    def text(self) -> str:
        """What has been delivered and stands."""
        return "".join([self._segments[at]["text"] for at in self._standing])

    @property
    def size(self) -> int:
        """About how many characters a snapshot has."""
        said = sum(len(row["reason"]) for row in self._rows)
        said += sum(len(attempt["reason"]) for attempt in self._attempts)
        return self._written + said + 60 * len(self._segments)

    @property
    def run_id(self) -> str:
        """Which run this is; empty before the first event."""
        return self._run_id

    @property
    def is_over(self) -> bool:
        """Whether the run has completed."""
        return self._state not in ("waiting", "running")

    def snapshot(self) -> Snapshot:
        """Return the state of the run as JSON that is not changed afterwards.

        The lists are new, but snapshots share their items.
        """
        return {
            "run_id": self._run_id,
            "model": self._model,
            "chunking": self._chunking,
            "state": self._state,
            "text": self._segments.copy(),
            "pending": self._pending.getvalue(),
            "reasoning": {
                "text": "".join(self._thoughts),
                "pending": self._thinking.getvalue(),
                "rejected": self._rejected_thought,
            },
            "calls": [call.copy() for call in self._calls],
            "calling": "".join(self._calling),
            "thinking": self._last == "reasoning" and self._state == "running",
            "rows": [row.copy() for row in self._rows],
            "attempts": [attempt.copy() for attempt in self._attempts],
            "stages": self._stages.copy(),
            "stage": self._stage,
            "quiet": self._quiet and self._state == "running",
            "prompt": self._prompt,
            "seconds": round(self._now, 6),
            "usage": self._usage,
            "error": self._error,
            "finish_reason": self._finish_reason,
        }

    # What comes

    def apply(self, event: BaseEvent) -> None:
        """Apply the next event. Any order is accepted, because a recording may be cut."""
        if isinstance(event, StageEvent):
            self._on_stage(event)
            return
        if event.run_id != self._run_id:
            if self._run_id and not isinstance(event, StartedEvent):
                return
            self._begin(event)
        self._now = elapsed(event.timestamp, self._began, self._now)
        fold = self._folds.get(type(event))
        if fold is not None:
            fold(self, event)
        if self.timeline is not None:
            self.timeline.apply(event)

    def _begin(self, event: BaseEvent) -> None:
        self._clear()
        self._run_id, self._stage, self._state = event.run_id, event.stage, "running"
        self._began = event.timestamp if isfinite(event.timestamp) else 0.0
        self._attempts = [_attempt(event.attempt)]
        if self.timeline is not None:
            self.timeline = Timeline()

    def _on_stage(self, event: StageEvent) -> None:
        if event.run_id != self._contract:
            self._contract = event.run_id
            self._stages = []
        self._stages.append({"stage": event.stage, "status": event.status, "reason": event.reason})

    def _on_started(self, event: StartedEvent) -> None:
        self._model, self._chunking = event.model, event.chunking
        self._rows = [_row(name) for name in event.requirements]

    def _on_token(self, event: TokenEvent) -> None:
        self._note_piece(event.channel)
        if event.channel == "text":
            self._pending.add(event.text)
        elif event.channel == "reasoning":
            self._thinking.add(event.text)
        else:
            self._calling.append(event.text)

    def _note_piece(self, channel: Channel) -> None:
        self._quiet, self._last = False, channel

    def _on_verdict(self, event: VerdictEvent) -> None:
        if 0 <= event.lane < len(self._rows):
            row = self._rows[event.lane]
            row["state"], row["reason"] = event.verdict, event.reason or ""
            row["judged"] += event.observed
            if 0 <= event.seconds < MOST:
                row["seconds"] = (row["seconds"] or 0.0) + event.seconds

    def _on_check(self, event: QuickCheckEvent) -> None:
        while len(self._rows) < len(event.results):  # the beginning of the run is missing
            self._rows.append(_row(f"requirement {len(self._rows) + 1}"))
        for row, result in zip(self._rows, event.results, strict=False):
            if result is not None:
                row["judged"] += 1
                row["state"], row["reason"] = result.success, result.reason or ""
        if event.channel == "text":
            self._verdicts[event.chunk_index] = event.verdict
        if not event.passed:
            self._failed = True
            self._reject(event.chunk_index if event.channel == "text" else None)

    def _reject(self, chunk: int | None) -> None:
        """Reject what was written and not released."""
        self._rejected_thought += self._thinking.take_all()
        self._calling.clear()
        rest = self._pending.take_all()
        if rest:
            verdict: TriState | None = None if chunk is None else "fail"
            self._segments.append({"text": rest, "chunk": chunk, "verdict": verdict})
            self._written += len(rest)
            self._take_back(len(self._segments) - 1)

    def _take_back(self, start: int) -> None:
        """Take back the text from this segment on."""
        before = self._attempts[-1]["taken_back"]
        start = start if before is None else min(start, before[0])
        if start < len(self._segments):
            self._attempts[-1]["taken_back"] = [start, len(self._segments)]
            del self._standing[bisect_left(self._standing, start) :]

    def _on_chunk(self, event: ChunkEvent) -> None:
        segment: Segment = {
            "text": event.separator + event.text,
            "chunk": event.chunk_index,
            "verdict": self._verdicts.pop(event.chunk_index, None),
        }
        if event.audio is not None:
            segment["bytes"] = len(event.audio)
        self._note_piece("text")
        self._standing.append(len(self._segments))
        self._segments.append(segment)
        self._written += len(segment["text"])
        self._pending.drop_to(event.end)

    def _on_reasoning(self, event: ReasoningEvent) -> None:
        self._note_piece("reasoning")
        said = event.separator + event.text
        self._thoughts.append(said)
        self._written += len(said)
        self._thinking.drop_to(event.end)

    def _on_call(self, event: ToolCallEvent) -> None:
        self._note_piece("tool")
        self._calling.clear()
        self._written += len(event.raw)
        call: CallView = {
            "name": event.name,
            "raw": event.raw,
            "attempt": event.attempt,
            "stands": True,
        }
        self._calls.append(call)

    def _on_done(self, event: StreamingDoneEvent) -> None:
        self._finish_reason = event.finish_reason
        self._failed = self._failed or event.finish_reason in REFUSED

    def _on_validation(self, event: FullValidationEvent) -> None:
        self._failed = self._failed or not event.passed
        for row, verdict in zip(self._rows, event.results, strict=False):
            row["state"] = "pass" if verdict else "fail"
            said = [str(part) for part in (verdict.reason, verdict.error) if part]
            row["reason"] = ": ".join(said)

    def _on_retry(self, event: RetryEvent) -> None:
        self._reject(None)
        kept = max(event.keep_chunks, 0)
        if kept < len(self._standing):
            self._take_back(self._standing[kept])
        self._take_back_others(max(event.keep_reasoning, 0), calls=event.mode != "resume")
        ended = self._attempts[-1]
        ended["reason"], ended["mode"] = event.reason, event.mode
        self._attempts.append(_attempt(event.attempt))
        if event.mode == "restart":
            self._pending.restart()
        if not event.keep_reasoning:
            self._thinking.restart()
        self._verdicts.clear()
        self._finish_reason, self._failed, self._quiet = None, False, True
        for row in self._rows:
            row["state"], row["reason"] = "waiting", ""

    def _take_back_others(self, kept: int, *, calls: bool) -> None:
        """Take back the reasoning behind the first chunks, and perhaps all calls."""
        self._rejected_thought = "".join(self._thoughts[kept:]) + self._rejected_thought
        del self._thoughts[kept:]
        for call in self._calls if calls else ():
            call["stands"] = False

    def _on_error(self, event: ErrorEvent) -> None:
        self._error = f"{event.exception_type}: {event.detail}"

    def _on_completed(self, event: CompletedEvent) -> None:
        if event.success:
            self._pending.take_all()  # white space behind the last chunk
            self._thinking.take_all()
            self._rejected_thought = ""
        else:
            self._reject(None)
        self._usage = asdict(event.usage)
        if event.success:
            self._state = "valid"
        elif self._error is not None:
            self._state = "error"
        else:
            self._state = "invalid" if self._failed else "cut short"

    _folds: ClassVar[dict[type[BaseEvent], Callable[[RunView, Any], None]]] = {
        StartedEvent: _on_started,
        TokenEvent: _on_token,
        VerdictEvent: _on_verdict,
        QuickCheckEvent: _on_check,
        ChunkEvent: _on_chunk,
        ReasoningEvent: _on_reasoning,
        ToolCallEvent: _on_call,
        StreamingDoneEvent: _on_done,
        FullValidationEvent: _on_validation,
        RetryEvent: _on_retry,
        ErrorEvent: _on_error,
        CompletedEvent: _on_completed,
    }


class _Pending:
    """Text that was written and is not released yet. Its cost is linear, even without boundaries."""

    def __init__(self) -> None:
        self._parts: deque[str] = deque()
        self._skipped = 0  # characters of the first part that are released
        self._start = 0  # offset of the first character in the attempt's raw text

    def add(self, text: str) -> None:
        self._parts.append(text)

    def drop_to(self, end: int) -> None:
        """Drop the text up to the end of a released chunk."""
        drop = end - self._start
        self._start = max(end, self._start)
        while drop > 0 and self._parts:
            left = len(self._parts[0]) - self._skipped
            if left > drop:
                self._skipped += drop
                return
            self._parts.popleft()
            self._skipped = 0
            drop -= left

    def take_all(self) -> str:
        """Empty it. Return its text, unless that is white space."""
        text = self.getvalue()
        self._parts.clear()
        self._skipped = 0
        return text if text.strip() else ""

    def restart(self) -> None:
        """Reset it for a new attempt."""
        self._start = 0

    def getvalue(self) -> str:
        if len(self._parts) > 1 or self._skipped:
            text = "".join(self._parts)[self._skipped :]
            self._parts = deque([text])
            self._skipped = 0
        return self._parts[0] if self._parts else ""


def _row(name: str) -> RowView:
    return {"name": name, "state": "waiting", "judged": 0, "reason": "", "seconds": None}


def _attempt(number: int) -> AttemptView:
    return {"number": number, "reason": "", "mode": None, "taken_back": None}
