"""The settings of a pipeline, checked and frozen: what its runs and attempts read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reactivex import Observable

    from streamval.backends.base import Backend
    from streamval.chunkers.chunking import Chunking
    from streamval.pipeline.repair import Repair
    from streamval.requirements.base import Requirement
    from streamval.structured.schema import Schema
    from streamval.types.chunks import Chunk


@dataclass(frozen=True, slots=True)
class Settings:
    """What a `Pipeline` was given, each argument checked; see there.

    Attributes:
        backend: Who speaks.
        validation_backend: Whom requirements ask; `None` for who speaks.
        requirements: Who judges. With a `schema`, the last one judges by it.
        chunking: How the stream is cut.
        nothing: No text, or no bytes: whether this is a pipeline of text or of sound.
        schema: What the output is to become an instance of, or `None`.
        retry: What follows a failure.
        options: For each generation.
        max_pending_chunks: With so many chunks waiting for verdicts, the backend is not read.
        stall_timeout: Seconds without a delta before the run ends with an error.
        emit_tokens: Whether there is a `TokenEvent` for each delta.
        emit_verdicts: Whether there is a `VerdictEvent` for each lane's verdict.
        delta_operators: The user's operators before the chunker.
        chunk_operators: The user's operators after the release.
    """

    backend: Backend
    validation_backend: Backend | None
    requirements: tuple[Requirement, ...]
    chunking: Chunking
    nothing: str | bytes
    schema: Schema[Any] | None
    retry: Repair | None
    options: Mapping[str, Any]
    max_pending_chunks: int
    stall_timeout: float | None
    emit_tokens: bool
    emit_verdicts: bool
    delta_operators: tuple[Callable[[Observable[str]], Observable[str]], ...]
    chunk_operators: tuple[Callable[[Observable[Chunk]], Observable[Chunk]], ...]

    @property
    def has_operators(self) -> bool:
        """Whether the user has put operators into the pipeline."""
        return bool(self.delta_operators or self.chunk_operators)
