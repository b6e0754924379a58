"""All runs of a pipeline that run at the same time belong to one event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamval.errors import RunError

if TYPE_CHECKING:
    import asyncio


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
        """A run begins on this loop.

        Raises:
            RunError: If others are still running on another loop.
        """
        if self._active and self._loop is not loop:
            message = (
                "this pipeline has runs on another event loop; a backend's connections belong to "
                "one loop, so make a pipeline for each"
            )
            raise RunError(message)
        self._loop = loop
        self._active += 1

    def leave(self) -> None:
        """A run has ended."""
        self._active -= 1
