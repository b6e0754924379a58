"""`validate` turns chunks into checks; pipelines use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reactivex import Observable
from reactivex.disposable import CompositeDisposable, Disposable, SerialDisposable

from streamval.aio.scope import scope
from streamval.operators.fan_out import subscribe_in
from streamval.requirements.base import as_requirements
from streamval.validation.fan import Fan
from streamval.validation.options import FanOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase
    from typing_extensions import Unpack

    from streamval.requirements.base import Requirement
    from streamval.types.chunks import Chunk
    from streamval.validation.options import JudgingOptions
    from streamval.validation.verdicts import Check, Verdict


def validate(
    requirements: Sequence[Requirement | str],
    *,
    on_verdict: Callable[[Verdict], None] | None = None,
    **options: Unpack[JudgingOptions],
) -> Callable[[Observable[Chunk]], Observable[Check]]:
    """Judge each chunk by all requirements, side by side, and stop at the first failure.

    The same as ``cancel_on_fail(fan_out(requirements))`` followed by ``merge_tri_state()``, with
    one observable in place of three. At the first failed verdict the source is disposed of at once,
    while earlier chunks are judged to their end. Checks come in chunk order; the first failed one
    is the last.

    Args:
        requirements: Who judges.
        on_verdict: Called with each verdict as it comes, before the check that it leads to. The source
            has been disposed of before this is called with the failed one.
        **options: As for `fan_out`.

    Returns:
        An operator. It completes when all verdicts are in, whether or not a chunk has failed. What
        a validator raises becomes an error, unless its `on_error` says otherwise.

    Raises:
        UsageError: As `fan_out`.

    Example:
        >>> import asyncio, reactivex
        >>> from streamval.bridge import iterate
        >>> from streamval.operators import chunk
        >>> from streamval.requirements import stream_check
        >>> calm = stream_check(lambda text: not text.endswith("!"), "stay calm")
        >>> async def main():
        ...     checks = reactivex.of("All is well. Help! More.").pipe(chunk(), validate([calm]))
        ...     async for check in iterate(checks):
        ...         print(check.chunk.text, check.success)
        >>> asyncio.run(main())
        All is well. pass
        Help! fail
    """
    judging = FanOptions(as_requirements(requirements), **options)

    def operator(source: Observable[Chunk]) -> Observable[Check]:
        def subscribe(
            observer: ObserverBase[Check], scheduler: SchedulerBase | None = None
        ) -> DisposableBase:
            upstream = SerialDisposable()
            with scope() as current:
                fan = Fan(
                    judging,
                    current,
                    observer.on_error,
                    observer.on_completed,
                    on_verdict=on_verdict,
                    on_check=observer.on_next,
                    cancel_source=upstream.dispose,
                )
                upstream.disposable = subscribe_in(current, fan, source, scheduler)
            return CompositeDisposable(upstream, Disposable(fan.stop))

        return Observable(subscribe)

    return operator
