"""`only`: the events of some types."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from reactivex import operators as ops

from streamval.events import BaseEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from reactivex import Observable

E = TypeVar("E", bound=BaseEvent)


def only(*event_types: type[E]) -> Callable[[Observable[BaseEvent]], Observable[E]]:
    """Let through only events of these types.

    Args:
        *event_types: Event classes.

    Returns:
        An operator, typed by what it lets through.

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
