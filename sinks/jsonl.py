"""`JSONL`: events as lines of JSON in a file."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from streamval.errors import UsageError
from streamval.events import BaseEvent, CompletedEvent, EventAdapter, StartedEvent


class JSONL:
    """Appends each event to a file, a line each.

    Each line is written with one system call where possible, so that it stays
    whole even if the process dies. Several runs may share one sink; the file is open while one
    of them is running.

    Args:
        path: The file; its folder must exist. With `emit_tokens=True` in the pipeline the
            recording holds the model's deltas, and `ReplayBackend` can replay it.

    Raises:
        UsageError: If the folder does not exist, or the path is a folder.

    Example:
        >>> import tempfile
        >>> from streamval.backends import read_events
        >>> from streamval.events import TokenEvent
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "run.jsonl")
        ...     with JSONL(path) as record:
        ...         record(TokenEvent(run_id="r", attempt=1, text="Hi"))
        ...     [event.text for event in read_events(path)]
        ['Hi']
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise UsageError(f"cannot record to {self.path}: there is no folder {self.path.parent}")
        if self.path.is_dir():
            raise UsageError(f"cannot record to {self.path}: it is a folder; name a file in it")
        self._file: int | None = None
        self._running: set[str] = set()

    def __call__(self, event: BaseEvent) -> None:
        """Write an event."""
        if isinstance(event, StartedEvent):
            self._running.add(event.run_id)
        if self._file is None:
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._write(self._file, EventAdapter.dump_json(event) + b"\n")
        if isinstance(event, CompletedEvent):
            self._running.discard(event.run_id)
            if not self._running:
                self.close()

    def _write(self, file: int, line: bytes) -> None:
        before = os.fstat(file).st_size
        left = memoryview(line)
        try:
            while left:
                left = left[os.write(file, left) :]
        except OSError:
            # A full disk: remove the part of the line that was written, so that the next one is whole.
            with suppress(OSError):
                os.ftruncate(file, before)
            raise

    def close(self) -> None:
        """Close the file; the next event opens it again."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> JSONL:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
