"""`only`: lets through events of the given types."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from reactivex import Observable
from reactivex import operators as ops

from streamval.events import BaseEvent

E = TypeVar("E", bound=BaseEvent)


def only(*event_types: type[E]) -> Callable[[Observable[BaseEvent]], Observable[E]]:
    """Let through only events of these types.

    Args:
        *event_types: Event classes.

    Returns:
        An operator, typed by the event classes.

    Example:
        >>> import reactivex
        >>> from streamval.events import TokenEvent, StreamingDoneEvent
        >>> events = reactivex.of(
        ...     TokenEvent(run_id="r", attempt=1, text="Hi"),
        ...     StreamingDoneEvent(run_id="r", attempt=1, full_text="Hi"),
        ... )
        >>> _ = events.pipe(only(TokenEvent)).subscribe(lambda event: print(event.type))
        token
    """

    def operator(source: Observable[BaseEvent]) -> Observable[E]:
        chosen = source.pipe(ops.filter(lambda event: isinstance(event, event_types)))
        return cast("Observable[E]", chosen)

    return operator
