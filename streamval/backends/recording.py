"""A recording: the events of runs, a line of JSON each, as the sink `JSONL` writes them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from streamval.errors import UsageError
from streamval.events import BaseEvent, EventAdapter


def read_events(path: str | Path) -> Iterator[BaseEvent]:
    """Yield the events of a recording, in order.

    Args:
        path: A file that `JSONL` has written.

    Yields:
        The events; read line by line, so a long recording takes no memory.

    Raises:
        UsageError: If there is no such file, or a line is not an event.

    Warns:
        UserWarning: If the last line is incomplete, because the process died or the disk was full. It is
            skipped.
    """
    try:
        with Path(path).open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n") and not _is_event(line):
                    message = (
                        f"the last line of {path} is torn, and left out: the recording was cut"
                    )
                    warnings.warn(message, stacklevel=2)
                elif line.strip():
                    yield _event(path, number, line)
    except OSError as error:
        raise UsageError(f"cannot read the recording {path}: {error.strerror}") from None


def _is_event(line: bytes) -> bool:
    try:
        EventAdapter.validate_json(line)
    except ValidationError:
        return False
    return True


def _event(path: str | Path, number: int, line: bytes) -> BaseEvent:
    try:
        event: BaseEvent = EventAdapter.validate_json(line)
    except ValidationError as error:
        raise UsageError(
            f"line {number} of {path} is not an event: {error.errors()[0]['msg']}; "
            "recordings are written by --record and sinks.JSONL"
        ) from None
    return event
