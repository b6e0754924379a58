"""Checkpoints: the state of each lane after each chunk, so that a repair can resume there."""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import dataclass
from typing import TypeVar

from streamval.chunkers.base import Chunker
from streamval.chunkers.chunking import Chunking, finer, start_chunker
from streamval.chunkers.json import cuts_json, cuts_json_values
from streamval.requirements.base import Requirement
from streamval.types.chunks import Chunk
from streamval.validation.json_prose import JSONProse


@dataclass(frozen=True, slots=True)
class LaneState:
    """The state that a lane resumes from.

    Attributes:
        requirement: The clone that judges, with its state so far.
        chunker: Cuts the stream for this lane alone; `None` if it judges the pipeline's chunks.
        base: Offset in the raw text at which `chunker` began.
    """

    requirement: Requirement
    chunker: Chunker | JSONProse | None = None
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


C = TypeVar("C", Chunker, JSONProse, Chunker | JSONProse | None)


def copied(chunker: C) -> C:
    """Return an independent copy: deep, unless the chunker has a `__copy__`."""
    return copy(chunker) if hasattr(type(chunker), "__copy__") else deepcopy(chunker)


def fresh(requirement: Requirement, base: int, chunking: Chunking = None) -> LaneState:
    """Return the state of a lane that has judged nothing yet.

    Args:
        requirement: The original.
        base: Offset in the raw text at which judging begins.
        chunking: How the pipeline cuts. Of JSON, a requirement for prose judges the strings.
    """
    own = requirement.chunking
    if requirement.longer_chunks and (own == chunking or finer(own, chunking)):
        own = None
    chunker: Chunker | JSONProse | None = None if own is None else start_chunker(own)
    if cuts_json(chunking) and _reads_prose(requirement):
        everything = requirement.judges_all
        chunker = JSONProse(own, keys=everything, scalars=everything or cuts_json_values(chunking))
    return LaneState(copy(requirement), chunker, base)


def _reads_prose(requirement: Requirement) -> bool:
    """Return whether a requirement is asked about chunks, and not about raw text or sound."""
    if requirement.reads_json or requirement.judges is bytes:
        return False
    asked = getattr(requirement.stream_validate, "__func__", None)
    is_asked = asked is not Requirement.stream_validate
    return is_asked and (requirement.judges_all or not requirement.verbatim)
