"""The events that subscribers receive: frozen pydantic models with a `type` each.

The order within one attempt::

    started (once a run)
      { token* verdict* quick_check chunk partial_object* }*
                                             a chunk whose check failed has no `chunk` event;
                                             verdicts come as they are ready, so those on later
                                             chunks may come first; a chunk of reasoning is a
                                             `reasoning` event, a whole call of a tool a `tool_call`
    streaming_done, full_validation          natural end only
    retry                                    before each further attempt
    error                                    an exception ended the run
    completed                                last, exactly once, on every path
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from streamval.types.audio import AudioChunk
from streamval.types.channels import Channel
from streamval.types.chunks import Chunk
from streamval.types.deltas import ToolCallDelta
from streamval.types.messages import ToolCall
from streamval.types.notebook import html_of
from streamval.types.results import (
    Failure,
    PartialValidationResult,
    TriState,
    Usage,
    ValidationResult,
)

Stage: TypeAlias = Literal["pre", "act", "output", "post"]
"""Stages of a contract."""


class BaseEvent(BaseModel):
    """The fields of every event.

    Attributes:
        timestamp: Unix seconds.
        run_id: The same for all events of one run.
        attempt: From 1.
        stage: The stage of a contract that it belongs to; `None` outside of contracts.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64"
    )

    timestamp: float = Field(default_factory=time.time)
    run_id: str
    attempt: int
    stage: Stage | None = None

    _repr_html_ = html_of


class StartedEvent(BaseEvent):
    """The run begins: first, and once.

    Example:
        >>> StartedEvent(run_id="r", attempt=1, model="m", requirements=("be brief",), chunking="word").requirements
        ('be brief',)
    """

    type: Literal["started"] = "started"
    model: str
    requirements: tuple[str, ...] = ()
    chunking: str


class TokenEvent(BaseEvent):
    """A raw delta, before any check. Sent only where `emit_tokens=True`.

    Attributes:
        text: A piece of the answer, of the reasoning, or of a tool's name or arguments.
        channel: Which of them.
        tool_call: The piece of a call as it came, for a replay.

    Example:
        >>> TokenEvent(run_id="r", attempt=1, text="Hi").text
        'Hi'
    """

    type: Literal["token"] = "token"
    text: str
    channel: Channel = "text"
    tool_call: ToolCallDelta | None = None


class QuickCheckEvent(BaseEvent):
    """All lanes have judged one chunk, or one lane has failed it.

    Attributes:
        chunk_index: The chunk that was judged. One past the last chunk for the text that a requirement
            with a chunking of its own still held back at the end of the stream.
        passed: False if any lane failed it.
        verdict: Fail beats unknown beats pass.
        results: The result of each requirement, in order; `None` for a lane that was cut off, or does not
            judge this channel. A call where no tools were offered has one more, a failure.
        channel: The channel of the chunk.

    Example:
        >>> QuickCheckEvent(run_id="r", attempt=1, chunk_index=0, passed=True, verdict="unknown", results=()).passed
        True
    """

    type: Literal["quick_check"] = "quick_check"
    chunk_index: int
    passed: bool
    verdict: TriState
    results: tuple[PartialValidationResult | None, ...]
    channel: Channel = "text"


class VerdictEvent(BaseEvent):
    """One lane has judged one chunk. Sent as it comes, where `emit_verdicts=True` or the requirement observes.

    Not sent for a lane that is never asked about chunks, or that was cut off.

    Attributes:
        chunk_index: The chunk that was judged.
        lane: Position of the requirement, from 0.
        requirement: Its description.
        verdict: The verdict.
        reason: Why.
        seconds: The duration of the judgement. The time before it, in which the chunk waited because the
            lane was busy, is not included.
        channel: The channel of the chunk.
        observed: Whether the requirement only observes (`enforce=False`).

    Example:
        >>> VerdictEvent(
        ...     run_id="r", attempt=1, chunk_index=0, lane=0, requirement="be brief",
        ...     verdict="fail", reason="too long", seconds=0.25,
        ... ).verdict
        'fail'
    """

    type: Literal["verdict"] = "verdict"
    chunk_index: int
    lane: int
    requirement: str
    verdict: TriState
    reason: str | None = None
    seconds: float
    channel: Channel = "text"
    observed: bool = False


class ChunkEvent(BaseEvent):
    """A chunk is delivered. Sent after its QuickCheckEvent, and only if that did not fail.

    Attributes:
        text: The chunk; empty where it is sound.
        chunk_index: Its position, from 0.
        start: Offset of its first character (or byte) in the attempt's output.
        end: Offset just past the last one.
        separator: The raw text between the chunk before and this one.
        audio: The chunk, where it is sound; base64 in JSON.
        masked: Whether a requirement has masked a part of it.

    Example:
        >>> ChunkEvent(run_id="r", attempt=1, text="Hi.", chunk_index=0, start=0, end=3, separator="").chunk().text
        'Hi.'
    """

    type: Literal["chunk"] = "chunk"
    text: str
    chunk_index: int
    start: int
    end: int
    separator: str
    audio: bytes | None = None
    masked: bool = False

    def chunk(self) -> Chunk:
        """Return the chunk itself: an `AudioChunk`, where it is sound."""
        if self.audio is None:
            return Chunk(
                self.text,
                self.chunk_index,
                self.start,
                self.end,
                self.separator,
                self.attempt,
                masked=self.masked,
            )
        return AudioChunk(self.audio, self.chunk_index, self.start, self.end, attempt=self.attempt)


class ReasoningEvent(BaseEvent):
    """A chunk of reasoning is delivered. Sent after its QuickCheckEvent, and only if that did not fail.

    Not sent where the pipeline has ``reasoning="drop"``.

    Attributes:
        text: The chunk.
        chunk_index: Its position in the reasoning, from 0.
        start: Offset of its first character in the attempt's reasoning.
        end: Offset just past the last one.
        separator: The raw text between the chunk before and this one.
        masked: Whether a requirement has masked a part of it.

    Example:
        >>> ReasoningEvent(run_id="r", attempt=1, text="Let me see.", chunk_index=0, start=0, end=11, separator="").text
        'Let me see.'
    """

    type: Literal["reasoning"] = "reasoning"
    text: str
    chunk_index: int
    start: int
    end: int
    separator: str
    masked: bool = False


class ToolCallEvent(BaseEvent):
    """A call of a tool is whole, and has passed. A later RetryEvent takes it back.

    Attributes:
        index: Which call of the answer this is, from 0.
        id: The provider's id of the call; made here where it gave none.
        name: The name of the tool.
        arguments: The arguments, parsed.
        raw: The arguments as the model wrote them.
        signature: Google's signature of the thought that led to the call.

    Example:
        >>> ToolCallEvent(run_id="r", attempt=1, index=0, id="c1", name="now", arguments={}, raw="{}").call().name
        'now'
    """

    type: Literal["tool_call"] = "tool_call"
    index: int
    id: str
    name: str
    arguments: Any
    raw: str
    signature: str | None = None

    def call(self) -> ToolCall:
        """Return the call itself."""
        return ToolCall(self.index, self.id, self.name, self.arguments, self.raw, self.signature)


class PartialObjectEvent(BaseEvent):
    """A value of the JSON is complete. Sent where the pipeline has a `format`, after the chunk.

    Attributes:
        path: The path of the value: ``$.people[3].name``.
        value: The value; an object or array includes its contents.

    Example:
        >>> PartialObjectEvent(run_id="r", attempt=1, path="$.name", value="Ann").path
        '$.name'
    """

    type: Literal["partial_object"] = "partial_object"
    path: str
    value: Any


class StreamingDoneEvent(BaseEvent):
    """The model has ended, and the trailing fragment has been judged.

    Attributes:
        full_text: The text that has been delivered so far, with the whitespace behind its last chunk. Chunks that a
            requirement holds back are not in it yet.
        finish_reason: Why the model stopped, as the backend reports it; `None` if it does not.

    Example:
        >>> StreamingDoneEvent(run_id="r", attempt=1, full_text="Hi.", finish_reason="stop").finish_reason
        'stop'
    """

    type: Literal["streaming_done"] = "streaming_done"
    full_text: str
    finish_reason: str | None = None


class FullValidationEvent(BaseEvent):
    """Every requirement has judged the whole output.

    Example:
        >>> FullValidationEvent(run_id="r", attempt=1, passed=True, results=(ValidationResult(True),)).passed
        True
    """

    type: Literal["full_validation"] = "full_validation"
    passed: bool
    results: tuple[ValidationResult, ...]


class RetryEvent(BaseEvent):
    """A new attempt starts.

    Attributes:
        attempt: The number of the new attempt, 2 or more.
        reason: Why the last one was rejected.
        failures: Every requirement that failed, with its reason.
        mode: `"continue"` from the last good chunk, `"ask"` where the model was asked in words to continue
            from there, `"restart"`, or `"resume"` where the stream broke off: calls of tools stand then.
        keep_chunks: How many delivered chunks of text still stand; a UI discards the rest, and all calls of tools.
        keep_reasoning: The same for chunks of reasoning.
        model: The model that is asked next, of a pipeline with several backends.
        closed_at: When the backend of the last attempt was closed, in Unix seconds; `None` where it
            was never opened.

    Example:
        >>> RetryEvent(run_id="r", attempt=2, reason="x", failures=(), mode="continue", keep_chunks=3).keep_chunks
        3
    """

    type: Literal["retry"] = "retry"
    reason: str
    failures: tuple[Failure, ...]
    mode: Literal["continue", "restart", "ask", "resume"]
    keep_chunks: int
    keep_reasoning: int = 0
    model: str | None = None
    closed_at: float | None = None


class ErrorEvent(BaseEvent):
    """An exception ended the run. The code that drives the run gets the exception itself.

    Example:
        >>> ErrorEvent(run_id="r", attempt=1, exception_type="StallError", detail="no delta for 120 seconds").detail
        'no delta for 120 seconds'
    """

    type: Literal["error"] = "error"
    exception_type: str
    detail: str


class CompletedEvent(BaseEvent):
    """The run is over: last, exactly once, on every path.

    Attributes:
        success: True only if nothing failed while streaming, nothing raised, and every final
            validation passed.
        full_text: The delivered text that still stands; of a success, with the whitespace that the model wrote behind
            the last chunk.
        attempts_used: How many attempts were started.
        usage: Tokens of all attempts together.
        closed_at: When the backend of the last attempt was closed, in Unix seconds; `None` where it
            was never opened.

    Example:
        >>> CompletedEvent(run_id="r", attempt=1, success=True, full_text="Hi.", attempts_used=1, usage=Usage(7, 3)).usage.completion_tokens
        3
    """

    type: Literal["completed"] = "completed"
    success: bool
    full_text: str
    attempts_used: int
    usage: Usage
    closed_at: float | None = None


class StageEvent(BaseEvent):
    """A stage of a contract has ended, or a violated condition may still be remedied.

    Attributes:
        stage: The stage.
        status: Whether it passed.
        reason: Why it failed.

    Example:
        >>> StageEvent(run_id="r", attempt=1, stage="pre", status="failed", reason="too long").reason
        'too long'
    """

    type: Literal["stage"] = "stage"
    status: Literal["passed", "failed"]
    reason: str | None = None


Event = Annotated[
    StartedEvent
    | TokenEvent
    | QuickCheckEvent
    | VerdictEvent
    | ChunkEvent
    | ReasoningEvent
    | ToolCallEvent
    | PartialObjectEvent
    | StreamingDoneEvent
    | FullValidationEvent
    | RetryEvent
    | ErrorEvent
    | CompletedEvent
    | StageEvent,
    Field(discriminator="type"),
]
"""Any event."""


@cache
def maker(event: type[BaseEvent]) -> Callable[[dict[str, Any]], Event]:
    """Return a function that makes events from their fields, at two thirds of the cost of the class.

    Example:
        >>> maker(TokenEvent)({"run_id": "r", "attempt": 1, "text": "Hi"}).text
        'Hi'
    """
    make: Callable[[dict[str, Any]], Event] = TypeAdapter(event).validator.validate_python
    return make


EventAdapter: TypeAdapter[Any] = TypeAdapter(Event)
"""Events to JSON and back.

Example:
    >>> event = TokenEvent(run_id="r", attempt=1, text="Hi")
    >>> EventAdapter.validate_json(EventAdapter.dump_json(event)) == event
    True
"""
