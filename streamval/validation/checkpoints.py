"""Checkpoints: the state of each lane after each chunk, so that a repair can resume there."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TypeAlias

from streamval.chunkers.base import Chunker
from streamval.chunkers.chunking import Chunking, finer, start_chunker
from streamval.chunkers.json import cuts_json, cuts_json_values
from streamval.requirements.base import Requirement
from streamval.types.channels import Channel
from streamval.types.chunks import Chunk
from streamval.validation.json_prose import JSONProse, ToolProse, copied

LaneChunker: TypeAlias = "Chunker | JSONProse | ToolProse"
"""Cuts the chunks of the pipeline for one lane."""


@dataclass(frozen=True, slots=True)
class LaneState:
    """The state that a lane resumes from.

    Attributes:
        requirement: The clone that judges, with its state so far.
        chunker: Cuts the stream for this lane alone; `None` if it judges the pipeline's chunks.
        base: Offset in the raw text at which `chunker` began.
    """

    requirement: Requirement
    chunker: LaneChunker | None = None
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
        self._after: dict[tuple[Channel, int], dict[int, LaneState]] = {}
        self._start: dict[Channel, dict[int, LaneState]] = {}

    def save(self, lane: int, chunk: Chunk, state: LaneState) -> None:
        """Keep a lane's state after a chunk. Calls of tools begin anew with each attempt."""
        if chunk.channel != "tool":
            self._after.setdefault((chunk.channel, chunk.index), {})[lane] = state.copied()

    def released(self, chunk: Chunk) -> None:
        """Note that a chunk was released: a repair starts after it."""
        if (state := self._after.pop((chunk.channel, chunk.index), None)) is not None:
            self._start[chunk.channel] = state

    def rewind(self) -> None:
        """Drop the states after the last released chunk."""
        self._after.clear()

    def forget(self, channel: Channel) -> None:
        """Forget the states on a channel, which a new attempt writes anew."""
        self._start.pop(channel, None)

    def reset(self) -> None:
        """Forget everything: a new attempt starts from nothing."""
        self._after.clear()
        self._start = {}

    def start(self, lane: int, channel: Channel) -> LaneState | None:
        """Return the state that a lane resumes from on a channel, if there is one."""
        state = self._start.get(channel, {}).get(lane)
        return None if state is None else state.copied()


def fresh(
    requirement: Requirement, base: int, chunking: Chunking = None, channel: Channel = "text"
) -> LaneState:
    """Return the state of a lane that has judged nothing yet.

    Args:
        requirement: The original.
        base: Offset in the raw text at which judging begins.
        chunking: How the pipeline cuts this channel. Of JSON, a requirement for prose judges the strings.
        channel: What it judges. Of calls of tools, it judges names, keys and values.
    """
    own = requirement.chunking
    if channel == "tool":
        reads = requirement.reads_tools or not _is_asked(requirement)
        whole = None if requirement.masks else own  # a string is masked as a whole
        return LaneState(copy(requirement), None if reads else ToolProse(whole), base)
    if requirement.longer_chunks and (own == chunking or finer(own, chunking)):
        own = None
    chunker: LaneChunker | None = None if own is None else start_chunker(own)
    if cuts_json(chunking) and _reads_prose(requirement):
        everything = requirement.judges_all
        own = None if requirement.masks else own
        chunker = JSONProse(own, keys=everything, scalars=everything or cuts_json_values(chunking))
    return LaneState(copy(requirement), chunker, base)


def _reads_prose(requirement: Requirement) -> bool:
    """Return whether a requirement is asked about chunks, and not about raw text or sound."""
    if requirement.reads_json or requirement.judges is bytes:
        return False
    return _is_asked(requirement) and (requirement.judges_all or not requirement.verbatim)


def _is_asked(requirement: Requirement) -> bool:
    """Return whether a requirement judges chunks."""
    asked = getattr(requirement.stream_validate, "__func__", None)
    return asked is not Requirement.stream_validate
