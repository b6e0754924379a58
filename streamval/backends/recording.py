"""A recording: the events of runs, a line of JSON each, as the sink `JSONL` writes them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from streamval.errors import UsageError
from streamval.events import EventAdapter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamval.events import BaseEvent


def read_events(path: str | Path) -> Iterator[BaseEvent]:
    """The events of a recording, in order.

    Args:
        path: A file that `JSONL` has written.

    Yields:
        The events; read line by line, so a long recording takes no memory.

    Raises:
        UsageError: If there is no such file, or a line is no event.

    Warns:
        UserWarning: If the last line is torn, as by a process that died or a full disk. It is left
            out.
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
        message = f"cannot read the recording {path}: {error.strerror}"
        raise UsageError(message) from None


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
        message = f"line {number} of {path} is no event: {error.errors()[0]['msg']}"
        raise UsageError(message) from None
    return event
