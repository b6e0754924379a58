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
        queued: Lanes that have just answered and have queued more chunks, once for each slot that is
            free: a lane with several slots may be there more than once. Those returned are removed.
            One whose queue has been emptied meanwhile is removed too, and gets back its slot.

    Returns:
        The turns, or `None` if no chunk is queued.
    """
    rows = [lane.queue[0] for lane in queued if lane.queue]
    row = min(rows, key=lambda one: one.position) if rows else None
    lanes, left = [], []
    for lane in sorted(queued, key=lambda one: -one.position):
        if not lane.queue:
            lane.slots += 1
        elif lane.queue[0] is row:
            lane.queue.popleft()
            lanes.append(lane)
        else:
            left.append(lane)
    queued[:] = left
    return None if row is None else Turns(row, lanes)
