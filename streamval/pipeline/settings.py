"""The settings of a pipeline, checked and frozen, for its runs and attempts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from reactivex import Observable

from streamval.backends.base import Backend
from streamval.chunkers.chunking import Chunking
from streamval.pipeline.repair import Repair
from streamval.requirements.base import Requirement
from streamval.structured.schema import Schema
from streamval.structured.tools import Tool
from streamval.types.channels import Channel
from streamval.types.chunks import Chunk
from streamval.types.messages import ToolCall


@dataclass(frozen=True, slots=True)
class Settings:
    """The checked arguments of a `Pipeline`; see there.

    Attributes:
        backends: The backends that generate, in the order in which they are asked.
        validation_backend: The backend that requirements ask; `None` for the one that generates.
        requirements: The originals. With a `schema`, the last one judges by it.
        chunking: How the stream is cut.
        nothing: The empty text, or the empty bytes of a pipeline of sound.
        schema: The type that the output is parsed as, or `None`.
        tools: The tools that the model may call. With them, the requirement before that of a `schema` judges
            the calls.
        delivered: The channels that are delivered.
        retry: The repair after a failure.
        options: For each generation.
        max_pending_chunks: The number of chunks waiting for verdicts at which the backend is paused.
        stall_timeout: Seconds without a delta before the run ends with an error.
        emit_tokens: Whether there is a `TokenEvent` for each delta.
        emit_verdicts: Whether there is a `VerdictEvent` for each lane's verdict.
        delta_operators: The user's operators before the chunker.
        chunk_operators: The user's operators after the release.
    """

    backends: tuple[Backend, ...]
    validation_backend: Backend | None
    requirements: tuple[Requirement, ...]
    chunking: Chunking
    nothing: str | bytes
    schema: Schema[Any] | None
    tools: tuple[Tool, ...]
    delivered: tuple[Channel, ...]
    retry: Repair | None
    options: Mapping[str, Any]
    max_pending_chunks: int
    stall_timeout: float | None
    emit_tokens: bool
    emit_verdicts: bool
    delta_operators: tuple[Callable[[Observable[str]], Observable[str]], ...]
    chunk_operators: tuple[Callable[[Observable[Chunk]], Observable[Chunk]], ...]

    @property
    def masks(self) -> bool:
        """Whether a requirement may mask text: then nothing else of it is in events and results."""
        return any(one.masks and one.enforce for one in self.requirements)

    def complaint(self, call: ToolCall) -> str | None:
        """Return what is wrong with the arguments of a call in which text was masked: they still have to be valid."""
        if not self.masks:
            return None
        for tool in self.tools:
            if tool.name == call.name and not isinstance(tool.schema, str):
                return tool.schema.complaint(call.raw)
        return None

    @property
    def backend(self) -> Backend:
        """The first backend."""
        return self.backends[0]
