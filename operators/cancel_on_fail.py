"""`cancel_on_fail`: close the source at the first failed verdict."""

from __future__ import annotations

from collections.abc import Callable

from reactivex import Observable, Subject
from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase
from reactivex.disposable import CompositeDisposable, SerialDisposable

from streamval.aio.on_loop import OnLoop
from streamval.aio.scope import scope
from streamval.types.chunks import Chunk
from streamval.validation.verdicts import Verdict


def cancel_on_fail(
    validate: Callable[[Observable[Chunk]], Observable[Verdict]],
) -> Callable[[Observable[Chunk]], Observable[Verdict]]:
    """Wrap an operator that emits verdicts, so that the first failure ends the source.

    A failed verdict disposes of the source, and so closes the backend, before the verdict is passed
    on. Then the input of `validate` completes, so that verdicts on
    earlier chunks still come.

    Args:
        validate: An operator from chunks to verdicts, such as `fan_out(requirements)`. It is
            subscribed to before the source is.

    Returns:
        An operator.

    Example:
        >>> import asyncio, reactivex
        >>> from streamval import bridge
        >>> from streamval.operators import chunk, fan_out
        >>> from streamval.requirements import stream_check
        >>> calm = stream_check(lambda text: not text.endswith("!"), "stay calm")
        >>> async def words():
        ...     for word in ["No. ", "Stop! ", "Never ", "read. "]:
        ...         print("read", word)
        ...         yield word
        >>> async def main():
        ...     verdicts = bridge.from_async_iterable(words).pipe(
        ...         chunk("word"), cancel_on_fail(fan_out([calm]))
        ...     )
        ...     async for verdict in bridge.iterate(verdicts):
        ...         print(verdict.chunk.text, verdict.result.success)
        >>> asyncio.run(main())
        read No.
        read Stop!
        No. pass
        Stop! fail
    """

    def operator(source: Observable[Chunk]) -> Observable[Verdict]:
        def subscribe(
            observer: ObserverBase[Verdict], scheduler: SchedulerBase | None = None
        ) -> DisposableBase:
            chunks: Subject[Chunk] = Subject()
            upstream = SerialDisposable()

            def on_next(verdict: Verdict) -> None:
                failed = verdict.result.success == "fail" and verdict.decides
                if failed:
                    upstream.dispose()
                observer.on_next(verdict)
                if failed:
                    chunks.on_completed()

            with scope():
                verdicts = validate(chunks).subscribe(
                    on_next, observer.on_error, observer.on_completed, scheduler=scheduler
                )
                upstream.disposable = source.subscribe(chunks, scheduler=scheduler)
            return CompositeDisposable(upstream, verdicts)

        return OnLoop(subscribe)

    return operator
