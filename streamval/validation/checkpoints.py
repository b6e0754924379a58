"""Checkpoints: the state of each lane after each chunk, so that a repair can go on from there."""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamval.chunkers.chunking import start_chunker

if TYPE_CHECKING:
    from streamval.chunkers.base import Chunker
    from streamval.requirements.base import Requirement


@dataclass(frozen=True, slots=True)
class LaneState:
    """What a lane goes on from.

    Attributes:
        requirement: The clone that judges, with what it has seen so far.
        chunker: Cuts the stream for this lane alone; `None` where the pipeline's chunks serve.
        base: Offset in the raw text at which `chunker` began.
    """

    requirement: Requirement
    chunker: Chunker | None = None
    base: int = 0

    def copied(self) -> LaneState:
        """A copy that does not change when the lane goes on."""
        return LaneState(copy(self.requirement), copied(self.chunker), self.base)


class Checkpoints:
    """The lanes' states after each chunk that may turn out to be the last good one.

    A `Repair` that continues needs them: the next attempt's lanes start from the state after the
    last kept chunk, so that nothing is judged twice.
    """

    def __init__(self) -> None:
        self._after: dict[int, dict[int, LaneState]] = {}
        self._start: dict[int, LaneState] = {}

    def save(self, lane: int, index: int, state: LaneState) -> None:
        """Keep a lane's state after chunk `index`."""
        self._after.setdefault(index, {})[lane] = state.copied()

    def delivered(self, index: int) -> None:
        """Chunk `index` was released: a repair starts after it."""
        self._start = self._after.pop(index, self._start)

    def rewind(self) -> None:
        """Forget what was judged past the last delivered chunk."""
        self._after.clear()

    def reset(self) -> None:
        """Forget everything: a new attempt starts from nothing."""
        self._after.clear()
        self._start = {}

    def start(self, lane: int) -> LaneState | None:
        """The state a lane goes on from, if it has one."""
        state = self._start.get(lane)
        return None if state is None else state.copied()


def copied(chunker: Chunker | None) -> Chunker | None:
    """A copy that goes on by itself: deep, unless the chunker knows better."""
    return copy(chunker) if hasattr(type(chunker), "__copy__") else deepcopy(chunker)


def fresh(requirement: Requirement, base: int) -> LaneState:
    """The state of a lane that has judged nothing yet."""
    chunker = None if requirement.chunking is None else start_chunker(requirement.chunking)
    return LaneState(copy(requirement), chunker, base)
