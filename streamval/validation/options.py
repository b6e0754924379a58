"""The options of judging: the arguments of the operators `fan_out` and `validate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from streamval.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamval.backends.base import Backend
    from streamval.chunkers.chunking import Chunking
    from streamval.requirements.base import Requirement
    from streamval.types.context import Context
    from streamval.validation.checkpoints import Checkpoints

MAX_PENDING_CHUNKS = 64
"""Chunks that may wait for verdicts before the source is not read any more."""


class JudgingOptions(TypedDict, total=False):
    """The keyword arguments of `fan_out` and `validate`; see `fan_out`."""

    backend: Backend | None
    ctx: Context | None
    max_pending_chunks: int
    chunking: Chunking
    index: int
    start: int
    checkpoints: Checkpoints | None
    on_start: Callable[[tuple[Requirement, ...]], None] | None


@dataclass(frozen=True, slots=True)
class FanOptions:
    """Who judges, and how: the requirements, and `JudgingOptions` with their defaults.

    Raises:
        UsageError: If `max_pending_chunks` is below 1.
    """

    requirements: tuple[Requirement, ...]
    backend: Backend | None = None
    ctx: Context | None = None
    max_pending_chunks: int = MAX_PENDING_CHUNKS
    chunking: Chunking = None
    index: int = 0
    start: int = 0
    checkpoints: Checkpoints | None = None
    on_start: Callable[[tuple[Requirement, ...]], None] | None = None

    def __post_init__(self) -> None:
        if self.max_pending_chunks < 1:
            message = f"max_pending_chunks must be at least 1, not {self.max_pending_chunks}"
            raise UsageError(message)
