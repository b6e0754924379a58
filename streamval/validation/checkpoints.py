"""Checkpoints: the state of each lane after each chunk, so that a repair can resume there."""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import dataclass

from streamval.chunkers.base import Chunker
from streamval.chunkers.chunking import start_chunker
from streamval.requirements.base import Requirement
from streamval.types.chunks import Chunk


@dataclass(frozen=True, slots=True)
class LaneState:
    """The state that a lane resumes from.

    Attributes:
        requirement: The clone that judges, with its state so far.
        chunker: Cuts the stream for this lane alone; `None` if it judges the pipeline's chunks.
        base: Offset in the raw text at which `chunker` began.
    """

    requirement: Requirement
    chunker: Chunker | None = None
    base: int = 0

    def copied(self) -> LaneState:
        """Return a copy that does not change with the lane."""
        return LaneState(copy(self.requirement), copied(self.chunker), self.base)


class Checkpoints:
    """The lanes' states after each chunk that may turn out to be the last good chunk.

    A `Repair` that continues needs them: the next attempt's lanes start from the state after the
    last kept chunk, so that nothing is judged twice.
    """

    def __init__(self) -> None:
        self._after: dict[int, dict[int, LaneState]] = {}
        self._start: dict[int, LaneState] = {}

    def save(self, lane: int, index: int, state: LaneState) -> None:
        """Keep a lane's state after chunk `index`."""
        self._after.setdefault(index, {})[lane] = state.copied()

    def released(self, chunk: Chunk) -> None:
        """Note that a chunk was released: a repair starts after it."""
        self._start = self._after.pop(chunk.index, self._start)

    def rewind(self) -> None:
        """Drop the states after the last released chunk."""
        self._after.clear()

    def reset(self) -> None:
        """Forget everything: a new attempt starts from nothing."""
        self._after.clear()
        self._start = {}

    def start(self, lane: int) -> LaneState | None:
        """Return the state that a lane resumes from, if there is one."""
        state = self._start.get(lane)
        return None if state is None else state.copied()


def copied(chunker: Chunker | None) -> Chunker | None:
    """Return an independent copy: deep, unless the chunker has a `__copy__`."""
    return copy(chunker) if hasattr(type(chunker), "__copy__") else deepcopy(chunker)


def fresh(requirement: Requirement, base: int) -> LaneState:
    """Return the state of a lane that has judged nothing yet."""
    chunker = None if requirement.chunking is None else start_chunker(requirement.chunking)
    return LaneState(copy(requirement), chunker, base)
