"""What subscribers receive: frozen pydantic models, told apart by `type`.

The order within one attempt::

    started (once a run)
      { token* quick_check chunk partial_object* }*
                                             a chunk whose check failed has no `chunk` event
    streaming_done, full_validation          natural end only
    retry                                    before each further attempt
    error                                    an exception ended the run
    completed                                last, exactly once, on every path
"""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from streamval.audio import AudioChunk
from streamval.chunks import Chunk
from streamval.results import (
    Failure,
    PartialValidationResult,
    TriState,
    Usage,
    ValidationResult,
)

if TYPE_CHECKING:
    from typing import Self

Stage: TypeAlias = Literal["pre", "act", "output", "post"]
"""Stages of a contract."""


class BaseEvent(BaseModel):
    """What every event says: when, of which run, in which attempt.

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

    @classmethod
    def made(cls, run_id: str, attempt: int, told: dict[str, Any]) -> Self:
        """An event of fields that are known to be right, which are not validated.

        For our own use, once or more a chunk; write ``ChunkEvent(…)`` for your own.
        """
        blank, names = _blank(cls)
        values = blank.copy()
        values["timestamp"] = time.time()
        values["run_id"] = run_id
        values["attempt"] = attempt
        values.update(told)
        event = _new(cls)
        # What pydantic's model_construct sets, which takes many times as long.
        _set_fields(event, values)
        _set_names(event, names)
        _set_extra(event, None)
        _set_private(event, None)
        return event


_new = object.__new__
_set_fields = vars(BaseModel)["__dict__"].__set__
_set_names = vars(BaseModel)["__pydantic_fields_set__"].__set__
_set_extra = vars(BaseModel)["__pydantic_extra__"].__set__
_set_private = vars(BaseModel)["__pydantic_private__"].__set__


@cache
def _blank(cls: type[BaseEvent]) -> tuple[dict[str, Any], set[str]]:
    """The fields of an event in their order, with their defaults, and their names."""
    fields = cls.model_fields
    return {name: field.default for name, field in fields.items()}, set(fields)


class StartedEvent(BaseEvent):
    """The run begins: first, and once."""

    type: Literal["started"] = "started"
    model: str
    requirements: tuple[str, ...] = ()
    chunking: str


class TokenEvent(BaseEvent):
    """A raw delta, before any check. Sent only where `emit_tokens=True`."""

    type: Literal["token"] = "token"
    text: str


class QuickCheckEvent(BaseEvent):
    """All lanes have spoken on one chunk, or one of them has failed it.

    Attributes:
        chunk_index: The chunk that was judged. One past the last chunk for what a requirement
            with a chunking of its own still held back at the end of the stream.
        passed: False if any lane failed it.
        verdict: Fail beats unknown beats pass.
        results: One a requirement, in their order; `None` for a lane that was cut off.
    """

    type: Literal["quick_check"] = "quick_check"
    chunk_index: int
    passed: bool
    verdict: TriState
    results: tuple[PartialValidationResult | None, ...]


class ChunkEvent(BaseEvent):
    """A chunk is delivered. After its QuickCheckEvent, and only if that did not fail.

    Attributes:
        text: The chunk; empty where it is sound.
        chunk_index: Its position, from 0.
        start: Offset of its first character (or byte) in the attempt's output.
        end: Offset just past the last one.
        separator: The raw text between the chunk before and this one.
        audio: The chunk, where it is sound; base64 in JSON.
    """

    type: Literal["chunk"] = "chunk"
    text: str
    chunk_index: int
    start: int
    end: int
    separator: str
    audio: bytes | None = None

    def chunk(self) -> Chunk:
        """The chunk itself: an `AudioChunk`, where it is sound."""
        if self.audio is None:
            return Chunk(self.text, self.chunk_index, self.start, self.end, self.separator)
        return AudioChunk(self.audio, self.chunk_index, self.start, self.end)


class PartialObjectEvent(BaseEvent):
    """A value of the JSON is complete. Sent where the pipeline has a `format`, after the chunk.

    Attributes:
        path: Where it stands: ``$.people[3].name``.
        value: The value, an object or array with all that is in it.
    """

    type: Literal["partial_object"] = "partial_object"
    path: str
    value: Any


class StreamingDoneEvent(BaseEvent):
    """The model has finished of its own accord; the trailing fragment is included."""

    type: Literal["streaming_done"] = "streaming_done"
    full_text: str


class FullValidationEvent(BaseEvent):
    """Every requirement has judged the whole output."""

    type: Literal["full_validation"] = "full_validation"
    passed: bool
    results: tuple[ValidationResult, ...]


class RetryEvent(BaseEvent):
    """A new attempt starts.

    Attributes:
        attempt: The one starting, 2 or more.
        reason: Why the last one was rejected.
        failures: Every requirement that failed, with its reason.
        mode: `"continue"` from the last good chunk, or `"restart"`.
        keep_chunks: How many delivered chunks still stand; a UI discards the rest.
    """

    type: Literal["retry"] = "retry"
    reason: str
    failures: tuple[Failure, ...]
    mode: Literal["continue", "restart"]
    keep_chunks: int


class ErrorEvent(BaseEvent):
    """An exception ended the run. Whoever drives the run gets the exception itself."""

    type: Literal["error"] = "error"
    exception_type: str
    detail: str


class CompletedEvent(BaseEvent):
    """The run is over: last, exactly once, on every path.

    Attributes:
        success: True only if nothing failed while streaming, nothing raised, and every final
            validation passed.
        full_text: What was delivered and still stands.
        attempts_used: How many attempts were started.
        usage: Tokens of all attempts together.
    """

    type: Literal["completed"] = "completed"
    success: bool
    full_text: str
    attempts_used: int
    usage: Usage


class StageEvent(BaseEvent):
    """A stage of a contract is over, or a condition was violated that may yet be remedied.

    Attributes:
        stage: Which.
        status: How.
        reason: Why it failed.
    """

    type: Literal["stage"] = "stage"
    status: Literal["passed", "failed"]
    reason: str | None = None


Event = Annotated[
    StartedEvent
    | TokenEvent
    | QuickCheckEvent
    | ChunkEvent
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

EventAdapter: TypeAdapter[Any] = TypeAdapter(Event)
"""Events to JSON and back.

Example:
    >>> event = TokenEvent(run_id="r", attempt=1, text="Hi")
    >>> EventAdapter.validate_json(EventAdapter.dump_json(event)) == event
    True
"""
