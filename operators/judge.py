"""`judge`: chunks in, checks out, the source closed at the first failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reactivex import Observable
from reactivex.disposable import CompositeDisposable, Disposable, SerialDisposable

from streamval.fan import Fan, FanOptions
from streamval.requirements.base import as_requirements
from streamval.scope import scope

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase

    from streamval.chunks import Chunk
    from streamval.requirements.base import Requirement
    from streamval.verdicts import Check


def judge(
    requirements: Sequence[Requirement | str], **options: Any
) -> Callable[[Observable[Chunk]], Observable[Check]]:
    """`cancel_on_fail(fan_out(requirements))` and `merge_tri_state()` in one.

    The same checks in the same order, without the observables in between, which cost more than
    most verdicts: what `Pipeline` uses. Compose the three where you want to see, or change, what
    passes between them.

    Args:
        requirements: Who judges.
        **options: As for `fan_out`.

    Returns:
        An operator.

    Raises:
        UsageError: If something in `requirements` is none.

    Example:
        >>> import asyncio, reactivex
        >>> from streamval.bridge import iterate
        >>> from streamval.chunks import Chunk
        >>> from streamval.requirements import stream_check
        >>> short = stream_check(lambda text: len(text) < 6, "short")
        >>> chunks = reactivex.of(Chunk("Hi!", 0, 0, 3), Chunk("Hello.", 1, 4, 10, " "))
        >>> async def main():
        ...     async for check in iterate(chunks.pipe(judge([short]))):
        ...         print(check.chunk.text, check.success)
        >>> asyncio.run(main())
        Hi! pass
        Hello. fail
    """
    fan_options = FanOptions(as_requirements(requirements), **options)

    def operator(source: Observable[Chunk]) -> Observable[Check]:
        def subscribe(
            observer: ObserverBase[Check], scheduler: SchedulerBase | None = None
        ) -> DisposableBase:
            upstream = SerialDisposable()
            with scope() as current:
                fan = Fan(
                    fan_options,
                    current,
                    observer.on_error,
                    observer.on_completed,
                    on_check=observer.on_next,
                    cut=upstream.dispose,
                )
                upstream.disposable = source.subscribe(
                    fan.on_chunk, fan.on_error, fan.on_completed, scheduler=scheduler
                )
            return CompositeDisposable(upstream, Disposable(fan.stop))

        return Observable(subscribe)

    return operator
