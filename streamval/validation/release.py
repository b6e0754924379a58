"""The release order: which chunks may go to the consumer, and when."""

from __future__ import annotations

from collections import deque

from streamval.types.chunks import Chunk
from streamval.validation.verdicts import Check


class ReleaseOrder:
    """Decides which chunks may go to the consumer.

    Without a lane that holds, each chunk that did not fail is released at once. A holding lane keeps an
    unknown chunk, and all chunks after it, until a later pass covers them or the final validation
    passes.

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
        self._held: deque[Chunk] | None = None  # made when a chunk is held: most runs hold none

    def check(self, check: Check) -> list[Chunk]:
        """Take a check; return the chunks that may go now, in order."""
        chunk = check.chunk
        if check.success == "fail":
            self._held = None
            return []
        if chunk is None:  # the final validation
            return self._take(None) if check.success == "pass" else []
        if chunk.text:  # the tail check at the end of a stream has no text of its own
            if check.covered is None and not self._held:
                return [chunk]
            if self._held is None:
                self._held = deque()
            self._held.append(chunk)
        return self._take(check.covered)

    def _take(self, covered: int | None) -> list[Chunk]:
        released = []
        while self._held and (covered is None or self._held[0].end <= covered):
            released.append(self._held.popleft())
        return released
