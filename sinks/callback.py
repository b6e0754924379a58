"""`Callback`: calls a function with events of some types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamval.errors import UsageError
from streamval.events import BaseEvent


class Callback:
    """Calls a function with events of the given types. For all events, subscribe the function itself.

    Args:
        fn: A function of an event, sync or async.
        *event_types: The event classes; by default all.

    Raises:
        UsageError: If `fn` is not callable.

    Example:
        >>> from streamval.events import StreamingDoneEvent, TokenEvent
        >>> show = Callback(lambda event: print(event.text), TokenEvent)
        >>> show(StreamingDoneEvent(run_id="r", attempt=1, full_text="Hi"))
        >>> show(TokenEvent(run_id="r", attempt=1, text="Hi"))
        Hi
    """

    def __init__(self, fn: Callable[[Any], object], *event_types: type[BaseEvent]) -> None:
        if not callable(fn):
            raise UsageError(f"Callback needs a function of an event, not {type(fn).__name__}")
        self._fn = fn
        self._event_types = event_types

    def __call__(self, event: BaseEvent) -> object:
        """Call the function if the event has one of the types. Return its result for the run to await."""
        if self._event_types and not isinstance(event, self._event_types):
            return None
        return self._fn(event)
