"""Makes the events of one run and publishes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamval.events import maker

if TYPE_CHECKING:
    from streamval.events import BaseEvent
    from streamval.pipeline.subscribers import Subscribers


class Emitter:
    """Makes events with the run's id and the number of the attempt.

    Args:
        subscribers: Who gets the events.
        run_id: The same for all events.

    Attributes:
        attempt: The attempt that is running, from 1.
    """

    __slots__ = ("_run_id", "_subscribers", "attempt")

    def __init__(self, subscribers: Subscribers, run_id: str) -> None:
        self._subscribers = subscribers
        self._run_id = run_id
        self.attempt = 1

    @property
    def listening(self) -> bool:
        """Whether there has ever been a subscriber. Ask before making fields for every chunk."""
        return self._subscribers.listening

    def emit(self, event: type[BaseEvent], /, **fields: Any) -> None:
        """Make an event of a class and its fields, and publish it, if there is a subscriber."""
        if self._subscribers.listening:
            fields["run_id"] = self._run_id
            fields["attempt"] = self.attempt
            self._subscribers.publish(maker(event)(fields))
