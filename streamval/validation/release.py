"""The release order: which chunks may go to the consumer, and when."""

from __future__ import annotations

from collections import deque
from itertools import chain
from operator import itemgetter

from streamval.types.channels import Channel
from streamval.types.chunks import Chunk
from streamval.types.masks import Mask
from streamval.validation.masking import masked_chunk
from streamval.validation.verdicts import Check


class ReleaseOrder:
    """Decides which chunks may go to the consumer.

        Without a lane that holds, each chunk that did not fail is released at once. A holding lane keeps an
        unknown chunk, and all chunks after it on its channel, until a later pass covers them or the final validation
        passes. Calls of tools wait for chunks of all channels before them.

    Example:
        >>> from streamval.types.chunks import Chunk
        >>> from streamval.validation.verdicts import Check
        >>> order = ReleaseOrder()
        >>> order.check(Check(Chunk("One.", 0, 0, 4), "unknown", covered=0))
        []
        >>> [chunk.text for chunk in order.check(Check(Chunk("Two.", 1, 5, 9), "pass", covered=9))]
        ['One.', 'Two.']
    """

    def __init__(self) -> None:
        # By channel, in order, with the number of the chunk; made when a chunk is held: most runs hold none.
        self._held: dict[Channel, deque[tuple[int, Chunk]]] | None = None
        self._covered: dict[Channel, int | None] = {}
        self._count = 0
        self._masks: dict[Channel, list[Mask]] | None = None  # that are not delivered yet

    def check(self, check: Check) -> list[Chunk]:
        """Take a check; return the chunks that may go now, in order."""
        if check.masks:
            self._add_masks(check)
        released = self._released(check)
        return released if self._masks is None else [self._masked(chunk) for chunk in released]

    def _add_masks(self, check: Check) -> None:
        assert check.chunk is not None
        if self._masks is None:
            self._masks = {}
        self._masks.setdefault(check.chunk.channel, []).extend(check.masks)

    def _masked(self, chunk: Chunk) -> Chunk:
        """Return a chunk with its masks replaced. Of a mask that goes on behind it, the rest is kept."""
        assert self._masks is not None
        masks = self._masks.get(chunk.channel)
        if not masks:
            return chunk
        if chunk.channel != "tool":  # calls may be mixed
            self._masks[chunk.channel] = [mask for mask in masks if mask.end > chunk.end]
        return masked_chunk(chunk, masks)

    def _released(self, check: Check) -> list[Chunk]:
        chunk = check.chunk
        if check.success == "fail":
            self._held = None
            return []
        if chunk is None:  # the final validation
            return self._take_all() if check.success == "pass" else []
        channel = chunk.channel
        if check.covered is None and self._held is None:
            return (
                [chunk] if chunk.text else []
            )  # the tail check at the end of a stream has no text
        if self._held is None:
            self._held = {}
        if chunk.text:
            self._count += 1
            self._held.setdefault(channel, deque()).append((self._count, chunk))
        self._covered[channel] = check.covered
        return self._take(channel)

    def _take(self, channel: Channel) -> list[Chunk]:
        """Take the chunks of a channel that are covered. A call of a tool waits for all that precedes it."""
        assert self._held is not None
        held, first = self._held.get(channel, deque()), self._count + 1
        covered = self._covered[channel]
        if channel == "tool":
            others = (queue for name, queue in self._held.items() if name != channel and queue)
            first = min((queue[0][0] for queue in others), default=first)
        released = []
        while held and held[0][0] < first and (covered is None or held[0][1].end <= covered):
            released.append(held.popleft()[1])
        if released and channel != "tool" and "tool" in self._held:
            released += self._take("tool")
        return released

    def _take_all(self) -> list[Chunk]:
        queues = [] if self._held is None else self._held.values()
        self._held = None
        return [chunk for _, chunk in sorted(chain(*queues), key=itemgetter(0))]
