"""`validate` turns chunks into checks; pipelines use it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reactivex import Observable
from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase
from reactivex.disposable import CompositeDisposable, Disposable, SerialDisposable
from typing_extensions import Unpack

from streamval.aio.on_loop import OnLoop
from streamval.aio.scope import scope
from streamval.operators.fan_out import subscribe_in
from streamval.requirements.base import Requirement, as_requirements
from streamval.types.chunks import Chunk
from streamval.validation.fan import Fan, FanCallbacks
from streamval.validation.options import FanOptions, JudgingOptions
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
        requirements: The requirements that judge.
        on_verdict: Called with each verdict as it comes, before the resulting check. The source
            is disposed of before this is called with a failed verdict.
        **options: As for `fan_out`.

    Returns:
        An operator. It completes when all verdicts are there, whether or not a chunk has failed. An
        exception of a validator becomes an error, if the requirement's `on_error` is `"raise"`.

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
                callbacks = FanCallbacks(
                    observer.on_error,
                    observer.on_completed,
                    on_verdict=on_verdict,
                    on_check=observer.on_next,
                    cancel_source=upstream.dispose,
                )
                fan = Fan(judging, current, callbacks)
                upstream.disposable = subscribe_in(current, fan, source, scheduler)
            return CompositeDisposable(upstream, Disposable(fan.stop))

        return OnLoop(subscribe)

    return operator
