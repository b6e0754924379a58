"""Makes the events of one run and publishes them."""

from __future__ import annotations

from typing import Any

from streamval.events import BaseEvent, maker
from streamval.pipeline.subscribers import Subscribers


class Emitter:
    """Makes events with the run's id.

    Args:
        subscribers: The receivers of the events.
        run_id: The same for all events.
    """

    __slots__ = ("_run_id", "_subscribers")

    def __init__(self, subscribers: Subscribers, run_id: str) -> None:
        self._subscribers = subscribers
        self._run_id = run_id

    def wanted(self, event: type[BaseEvent]) -> bool:
        """Return whether a class of events has a subscriber. Ask before making fields for every chunk."""
        return bool(self._subscribers.of(event))

    def emit(self, event: type[BaseEvent], attempt: int, /, **fields: Any) -> None:
        """Make an event and publish it, if its class has a subscriber.

        Args:
            event: Its class.
            attempt: The attempt that it belongs to, from 1.
            **fields: Its other fields.
        """
        if to := self._subscribers.of(event):
            fields["run_id"] = self._run_id
            fields["attempt"] = attempt
            self._subscribers.publish(maker(event)(fields), to)
