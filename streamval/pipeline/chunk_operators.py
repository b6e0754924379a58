"""The user's operators behind the release.

They live as long as what they delivered stands: through a repair that continues they keep their state; a
restart subscribes to them anew. So they have a subscription of their own, beside those of the attempts:

    attempt 1 ─ release ─┐
                         ├─ put ─▶ your chunk operators ─▶ deliver
    attempt 2 ─ release ─┘
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self, cast

from reactivex import Subject
from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase

from streamval.aio.gate import Gate
from streamval.aio.on_loop import OnLoop
from streamval.bridge import Subscription
from streamval.errors import DeltaTypeError
from streamval.types.chunks import Chunk

EARLY = 64
"""Chunks that wait for operators which have not subscribed yet, before the source is paused."""

MOST_WAITING = 1024
"""Chunks that are kept until operators emit something for them: one that drops everything emits nothing."""


class ChunkOperators:
    """Passes the chunks of all attempts through the user's operators.

    It is an async context manager. Leaving it disposes of the operators, and waits until all behind them is closed.

    Args:
        operators: The user's operators.
        deliver: Called with each chunk that they emit.
        gate: Paused while a subscriber cannot keep up.
        on_end: Called when they end on their own, with their error if they have failed.
    """

    def __init__(
        self,
        operators: Sequence[Callable[[Any], Any]],
        deliver: Callable[[Chunk], None],
        gate: Gate,
        on_end: Callable[[BaseException | None], None],
    ) -> None:
        self._operators = operators
        self._deliver = deliver
        self._gate = gate
        self._on_end = on_end

    async def __aenter__(self) -> Self:
        self._source: Subject[Chunk] = Subject()
        self._early: list[tuple[Any, ...]] | None = []
        self._waiting: deque[Chunk] = deque()
        self._last: Chunk | None = None
        self._is_inside = False
        chain = OnLoop(self._subscribe).pipe(*self._operators)
        self._subscription = subscription = Subscription(chain, self._take, self._gate)
        await subscription.__aenter__()
        subscription.when_ended(lambda: self._ended(subscription))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._subscription.__aexit__()
        self._let_go()

    def dispose(self) -> None:
        """Deliver nothing more."""
        self._subscription.dispose()

    async def restart(self) -> None:
        """Subscribe to the operators anew: nothing that they delivered stands."""
        await self.__aexit__()
        await self.__aenter__()

    def put(self, chunk: Chunk) -> None:
        """Hand a chunk to the operators."""
        self._push(self._source.on_next, chunk)
        if self._subscription.ended:
            self._ended(self._subscription)

    async def finish(self, error: Exception | None = None) -> None:
        """End the operators' source, with an error if there is one, and wait until they have ended.

        Raises:
            BaseException: The error that they end with.
        """
        source = self._source
        self._push(*((source.on_completed,) if error is None else (source.on_error, error)))
        await self._subscription.completed()

    def _subscribe(
        self, observer: ObserverBase[Chunk], scheduler: SchedulerBase | None
    ) -> DisposableBase:
        """Subscribe an operator to the source; the first one gets what came before it."""
        subscription = self._source.subscribe(observer, scheduler=scheduler)
        for push in self._let_go():
            self._push(*push)
        return subscription

    def _let_go(self) -> list[tuple[Any, ...]]:
        """Return what came early, and let the source go on if that held it back."""
        early, self._early = self._early or [], None
        if len(early) >= EARLY:
            self._gate.resume()
        return early

    def _push(self, push: Callable[..., None], *item: Any) -> None:
        if self._early is not None:  # `ops.delay_subscription`, say, subscribes later
            self._early.append((push, *item))
            if len(self._early) == EARLY:
                self._gate.pause()
            return
        self._waiting.extend(one for one in item if isinstance(one, Chunk))
        if len(self._waiting) > MOST_WAITING:  # its first and its last say what a string stands for
            del self._waiting[1]
        self._is_inside = True
        try:
            self._subscription.inside(push)(*item)
        finally:
            self._is_inside = False

    def _take(self, item: Any) -> None:
        try:
            self._deliver(self._as_chunk(item))
        except BaseException as error:  # a timer of theirs may be the caller, who would lose it
            self._subscription.end(error)

    def _as_chunk(self, item: Any) -> Chunk:
        """Return what the operators emit as a chunk."""
        if isinstance(item, Chunk):
            while self._waiting and self._waiting[0].index <= item.index:
                self._last = self._waiting.popleft()
            return item
        if not isinstance(item, (str, bytes)):
            raise DeltaTypeError(
                f"chunk_operators emitted {type(item).__name__}; emit chunks, or strings"
            )
        # Emitted while a chunk is handed to the operators, it stands for all that wait; later, for the first of them.
        first = self._waiting.popleft() if self._waiting else None
        self._last = first or self._last
        while self._is_inside and self._waiting:
            self._last = self._waiting.popleft()
        last, text = self._last, cast("Any", item)  # a chunk of sound has bytes
        if last is None:
            return Chunk(text, 0, 0, 0)
        if first is None:
            return replace(last, text=text, start=last.end, separator=last.text[:0])
        return replace(last, text=text, start=first.start, separator=first.separator)

    def _ended(self, subscription: Subscription) -> None:
        if subscription is self._subscription:  # and not one before a restart
            self._on_end(subscription.error())
