"""`Callback`: a function for some types of events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamval.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamval.events import BaseEvent


class Callback:
    """Calls a function with the events it is for; a plain function that takes all needs no sink.

    Args:
        fn: A function of an event, sync or async.
        *event_types: Which events it is for; none for all.

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
            message = f"Callback needs a function of an event, not {type(fn).__name__}"
            raise UsageError(message)
        self._fn = fn
        self._event_types = event_types

    def __call__(self, event: BaseEvent) -> object:
        """Call the function, if the event is for it; an awaitable goes back to the run."""
        if self._event_types and not isinstance(event, self._event_types):
            return None
        return self._fn(event)
