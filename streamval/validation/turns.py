"""Turns: the lanes that tasks still have to ask about one chunk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamval.validation.lane import Lane
    from streamval.validation.verdicts import Row


@dataclass(slots=True)
class Turns:
    """The coroutine functions that still have to be asked about one chunk.

    Attributes:
        row: The chunk.
        lanes: Those that no task has asked yet, the next one last.
    """

    row: Row
    lanes: list[Lane]


def next_turns(queued: list[Lane]) -> Turns | None:
    """The lanes that have queued the earliest chunk, so that chunks are judged in order.

    Args:
        queued: Lanes that have just answered and have queued more chunks. The ones returned are
            removed. One whose queue has been emptied meanwhile is removed too, and gets back its
            slot.

    Returns:
        The turns, or `None` if no chunk is queued.
    """
    waiting = [lane for lane in queued if lane.queue]
    for lane in queued:
        if not lane.queue:
            lane.slots += 1
    queued.clear()
    if not waiting:
        return None
    row = min((lane.queue[0] for lane in waiting), key=lambda one: one.position)
    turns = Turns(row, [])
    for lane in sorted(waiting, key=lambda one: -one.position):
        if lane.queue[0] is row:
            lane.queue.popleft()
            turns.lanes.append(lane)
        else:
            queued.append(lane)
    return turns
