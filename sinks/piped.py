"""`Piped`: the text of a run on standard output, for the next program."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from streamval.events import BaseEvent, ChunkEvent, CompletedEvent, RetryEvent


class Piped:
    """Writes the text to standard output as it is delivered.

    Text in a pipe cannot be taken back: a restart begins on a new line, and the console, on
    standard error, shows why.

    One run at a time.

    Args:
        leave: Called when the reader has closed the pipe, as ``| head`` does.
        whole: Write the text once, at the end, without text that was taken back: for JSON.

    Example:
        >>> import asyncio
        >>> from streamval import Pipeline, ScriptedBackend
        >>> async def main():
        ...     run = Pipeline(ScriptedBackend("All is well.")).start("How is it?")
        ...     run.subscribe(Piped(run.cancel))
        ...     await run
        >>> asyncio.run(main())
        All is well.
    """

    def __init__(self, leave: Callable[[], object], *, whole: bool = False) -> None:
        self._begun = False
        self._whole = whole
        self._leave = leave

    def __call__(self, event: BaseEvent) -> None:
        """Write the text that an event delivers."""
        text = ""
        if self._whole:
            text = f"{event.full_text.strip()}\n" if isinstance(event, CompletedEvent) else ""
        elif isinstance(event, ChunkEvent):
            text = event.separator + event.text
            text = text if self._begun else text.lstrip()
            self._begun = True
        elif isinstance(event, (RetryEvent, CompletedEvent)) and self._begun:
            self._begun = isinstance(event, RetryEvent) and bool(event.keep_chunks)
            text = "" if self._begun else "\n"
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:
            # Python flushes again at exit: redirect standard output to the null device.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self._leave()
