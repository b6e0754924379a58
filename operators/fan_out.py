"""`fan_out`: sends each chunk to every requirement, and emits their verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reactivex import Observable
from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase
from reactivex.disposable import CompositeDisposable, Disposable
from typing_extensions import Unpack

from streamval.aio.on_loop import Crossing, Direct, OnLoop, at_home, subscribe_directly
from streamval.aio.pump import Receiver
from streamval.aio.scope import Scope, scope
from streamval.requirements.base import Requirement, as_requirements
from streamval.types.chunks import Chunk
from streamval.validation.fan import Fan, FanCallbacks
from streamval.validation.observers import Observers
from streamval.validation.options import FanOptions, JudgingOptions
from streamval.validation.verdicts import Verdict


def fan_out(
    requirements: Sequence[Requirement | str], **options: Unpack[JudgingOptions]
) -> Callable[[Observable[Chunk]], Observable[Verdict]]:
    """Send each chunk to a clone of every requirement, side by side.

    The clones are made at subscription, before the source is touched. Within a lane verdicts come
    in chunk order (unless its `max_concurrency` is above 1). Between lanes they come as they are
    ready. A failed verdict stops the lanes for that chunk and later ones, while earlier chunks are
    judged to their end.

    Args:
        requirements: The requirements that judge.
        **options: Any of these:

            `backend` and `ctx`: handed to each `stream_validate`; by default `None`.

            `max_pending_chunks`: the number of chunks waiting for verdicts at which the source is paused
            (if the bridge reads it); by default 64.

            `chunking`: how the chunks that arrive were cut, so that a lane with a finer chunking
            of its own ends a piece wherever a chunk ends.

            `index` and `start`: index and offset of the first chunk, where the chunks continue
            earlier ones; by default 0.

            `checkpoints`: where the lanes save their state, and resume from it.

            `on_start`: called with the clones by channel. Those of a channel are made when something is written there.

    Returns:
        An operator. It completes after the source, when all verdicts are there. An exception of a
        validator becomes an error, if the requirement's `on_error` is `"raise"`.

    Raises:
        UsageError: If something in `requirements` is not a requirement, or `max_pending_chunks` is
            below 1.

    Example:
        >>> import asyncio, reactivex
        >>> from streamval.bridge import iterate
        >>> from streamval.types import Chunk
        >>> from streamval.requirements import stream_check
        >>> short = stream_check(lambda text: len(text) < 6, "short")
        >>> chunks = reactivex.of(Chunk("Hello.", 0, 0, 6), Chunk("Hi!", 1, 7, 10, " "))
        >>> async def main():
        ...     async for verdict in iterate(chunks.pipe(fan_out([short]))):
        ...         print(verdict.chunk.text, verdict.result.success)
        >>> asyncio.run(main())
        Hello. fail
    """
    judging = FanOptions(as_requirements(requirements), **options)

    def operator(source: Observable[Chunk]) -> Observable[Verdict]:
        def subscribe(
            observer: ObserverBase[Verdict], scheduler: SchedulerBase | None = None
        ) -> DisposableBase:
            with scope() as current:
                callbacks = FanCallbacks(
                    observer.on_error,
                    lambda _: observer.on_completed(),
                    on_verdict=observer.on_next,
                )
                fan = fan_of(judging, current, callbacks, observer.on_next)
                upstream = subscribe_in(current, fan, source, scheduler)
            return CompositeDisposable(upstream, Disposable(at_home(fan.stop)))

        return OnLoop(subscribe)

    return operator


def fan_of(
    options: FanOptions,
    current: Scope,
    callbacks: FanCallbacks,
    on_observed: Callable[[Verdict], None] | None,
) -> Fan | Observers:
    """Return the lanes of a subscription, with those of requirements that observe, if there are any."""
    if all(requirement.enforce for requirement in options.requirements):
        return Fan(options, current, callbacks)
    return Observers(options, current, callbacks, on_observed)


def subscribe_in(
    current: Scope, fan: Fan | Observers, source: Observable[Chunk], scheduler: SchedulerBase | None
) -> DisposableBase:
    """Subscribe lanes to their source.

    A chunk may be pushed from any context, and any thread, unless the source is `Direct`. The scope is entered again,
    so that observers downstream run in the scope of this subscription.
    """
    receiver = Receiver(fan.on_chunk, fan.on_error, fan.on_completed)
    if not isinstance(source, Direct):
        over, inside = Crossing(fan.on_error).over, current.inside
        on_chunk, on_completed = inside(fan.on_chunk), inside(fan.on_completed)
        receiver = Receiver(over(on_chunk), over(fan.on_error), over(on_completed))
    return subscribe_directly(source, receiver, scheduler)
