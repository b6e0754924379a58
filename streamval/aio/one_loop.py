"""Keeps the concurrent runs of a pipeline on one event loop."""

from __future__ import annotations

import asyncio

from streamval.errors import RunError


class OneLoop:
    """Counts the runs of one pipeline, as a backend's connections belong to one event loop.

    Example:
        >>> import asyncio
        >>> async def main(loop):
        ...     loop.enter(asyncio.get_running_loop())
        >>> loop = OneLoop()
        >>> asyncio.run(main(loop))
        >>> asyncio.run(main(loop))
        Traceback (most recent call last):
        streamval.errors.RunError: this pipeline has runs on another event loop; a backend's connections belong to one loop, so make a pipeline for each
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._active = 0

    def enter(self, loop: asyncio.AbstractEventLoop) -> None:
        """Count a run that begins on this loop.

        Raises:
            RunError: If other runs are still active on another loop.
        """
        if self._active and self._loop is not loop:
            raise RunError(
                "this pipeline has runs on another event loop; a backend's connections belong to "
                "one loop, so make a pipeline for each"
            )
        self._loop = loop
        self._active += 1

    def leave(self) -> None:
        """Count a run that has ended."""
        self._active -= 1
