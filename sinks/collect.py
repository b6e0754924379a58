"""`Collect`: keeps every event in a list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from streamval.events import BaseEvent

E = TypeVar("E", bound="BaseEvent")


class Collect:
    """Keeps every event, for tests and notebooks. It grows with the stream.

    Attributes:
        events: The events, in order.

    Example:
        >>> from streamval.events import TokenEvent
        >>> seen = Collect()
        >>> seen(TokenEvent(run_id="r", attempt=1, text="Hi"))
        >>> [event.text for event in seen.of(TokenEvent)]
        ['Hi']
    """

    def __init__(self) -> None:
        self.events: list[BaseEvent] = []

    def __call__(self, event: BaseEvent) -> None:
        """Keep an event."""
        self.events.append(event)

    def of(self, event_type: type[E]) -> list[E]:
        """Return the events of one type."""
        return [event for event in self.events if isinstance(event, event_type)]

    def __iter__(self) -> Iterator[BaseEvent]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)
