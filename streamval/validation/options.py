"""The options of judging: the arguments of the operators `fan_out` and `validate`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypedDict

from streamval.backends.base import Backend
from streamval.chunkers.chunking import Chunking
from streamval.errors import UsageError
from streamval.requirements.base import Requirement, judges_on
from streamval.types.channels import CHANNELS, Channel
from streamval.types.context import Context
from streamval.validation.checkpoints import Checkpoints

Clones: TypeAlias = "Mapping[Channel, tuple[Requirement | None, ...]]"
"""The clones that judge a channel, in the order of the requirements; `None` for one that does not judge it."""

MAX_PENDING_CHUNKS = 64
"""Chunks that may wait for verdicts before the source is paused."""


class JudgingOptions(TypedDict, total=False):
    """The keyword arguments of `fan_out` and `validate`; see `fan_out`."""

    backend: Backend | None
    ctx: Context | None
    max_pending_chunks: int
    chunking: Chunking
    index: int
    start: int
    checkpoints: Checkpoints | None
    on_start: Callable[[Clones], None] | None
    delivered: Collection[Channel]
    reasoning: tuple[int, int]
    said: Mapping[Channel, Callable[[], Any]]


@dataclass(frozen=True, slots=True)
class FanOptions:
    """The requirements that judge, and `JudgingOptions` with their defaults.

    Attributes:
        only: The position of the one requirement that judges, where it observes; `None` for all that decide.

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
    on_start: Callable[[Clones], None] | None = None
    delivered: Collection[Channel] = CHANNELS
    reasoning: tuple[int, int] = (0, 0)
    said: Mapping[Channel, Callable[[], Any]] = field(default_factory=dict)
    only: int | None = None

    def __post_init__(self) -> None:
        if self.max_pending_chunks < 1:
            raise UsageError(
                f"max_pending_chunks must be at least 1, not {self.max_pending_chunks}"
            )

    def judges(self, position: int, channel: Channel) -> bool:
        """Return whether a requirement judges a channel here."""
        requirement = self.requirements[position]
        here = requirement.enforce if self.only is None else position == self.only
        return here and judges_on(requirement, channel, delivered=self.delivered)
