"""`validate` turns chunks into checks; pipelines use it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeAlias

import reactivex
from reactivex import Observable
from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase
from reactivex.disposable import CompositeDisposable, Disposable, SerialDisposable
from typing_extensions import Unpack

from streamval import bridge
from streamval.aio.on_loop import at_home, made_behind, subscribe_directly
from streamval.aio.scope import scope
from streamval.aio.tasks import loop_or_none
from streamval.chunkers.tool import ToolChunk
from streamval.operators.fan_out import fan_of, subscribe_in
from streamval.requirements.base import Requirement, as_requirements
from streamval.types.channels import Channel
from streamval.types.chunks import Chunk
from streamval.types.context import SimpleContext
from streamval.types.thunk import GenerationMetadata
from streamval.types.transcript import Transcript
from streamval.validation.fan import FanCallbacks
from streamval.validation.final_check import as_read_by_rules, final_check
from streamval.validation.options import Clones, FanOptions, JudgingOptions
from streamval.validation.verdicts import Check, Verdict

FinalCheck: TypeAlias = "Callable[[Clones], Coroutine[Any, Any, Check]]"
"""Judges the whole output by the clones that have judged its chunks without a failure."""


def validate(
    requirements: Sequence[Requirement | str],
    *,
    final: bool | FinalCheck = True,
    on_verdict: Callable[[Verdict], None] | None = None,
    on_observed: Callable[[Verdict], None] | None = None,
    **options: Unpack[JudgingOptions],
) -> Callable[[Observable[Chunk]], Observable[Check]]:
    """Judge each chunk by all requirements, side by side, stop at the first failure, and judge the whole.

    The same as ``cancel_on_fail(fan_out(requirements))`` followed by ``merge_tri_state()``, with
    one observable in place of three, and the final validation behind it. At the first failed verdict the source is disposed of at once,
    while earlier chunks are judged to their end. Checks come in chunk order; the first failed one
    is the last. If none failed, the requirements then judge the whole output: one more check, without a chunk.

    Args:
        requirements: The requirements that judge.
        final: Whether they judge the whole output at the end (`Requirement.validate`): the text of
            all chunks. Or a coroutine function that does so, given the clones.
        on_verdict: Called with each verdict as it comes, before the resulting check. The source
            is disposed of before this is called with a failed verdict.
        on_observed: Called with each verdict of a requirement that only observes, as it comes; by default
            `on_verdict`. The end waits for these verdicts.
        **options: As for `fan_out`.

    Returns:
        An operator. It completes when all verdicts are there, whether or not something has failed
        (``release(on_fail="error")`` makes an error of a failure). An exception of a validator becomes an error, if the requirement's `on_error` is `"raise"`.

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
        ...         print(check.chunk.text, check.success, *check.failures)
        >>> asyncio.run(main())
        All is well. pass
        Help! fail stay calm
    """
    judging = FanOptions(as_requirements(requirements), **options)

    def operator(source: Observable[Chunk]) -> Observable[Check]:
        def subscribe(
            observer: ObserverBase[Check], scheduler: SchedulerBase | None = None
        ) -> DisposableBase:
            upstream, whole = SerialDisposable(), SerialDisposable()
            judge_whole, on_check = _start_final(final, judging, observer.on_next)

            def ended(clones: Clones | None) -> None:
                if clones is None or judge_whole is None:
                    observer.on_completed()
                    return
                work = partial(judge_whole, clones)
                if loop_or_none() is None:  # a program without a loop waits
                    judged = reactivex.from_callable(lambda: asyncio.run(work()))
                else:
                    judged = bridge.from_coroutine(work)
                whole.disposable = subscribe_directly(judged, observer, None)

            with scope() as current:
                callbacks = FanCallbacks(
                    observer.on_error,
                    ended,
                    on_verdict=on_verdict,
                    on_check=on_check,
                    cancel_source=upstream.dispose,
                )
                fan = fan_of(judging, current, callbacks, on_observed or on_verdict)
                upstream.disposable = subscribe_in(current, fan, source, scheduler)
            stop = Disposable(at_home(fan.stop))
            return CompositeDisposable(upstream, stop, whole)

        return made_behind(source, subscribe)

    return operator


def _start_final(
    final: bool | FinalCheck, options: FanOptions, emit: Callable[[Check], None]
) -> tuple[FinalCheck | None, Callable[[Check], None]]:
    """Return what judges the whole output of a subscription, if anything, and what takes its checks."""
    if final is not True:
        return final or None, emit
    texts: dict[Channel, Transcript[Any]] = {}

    def on_check(check: Check) -> None:
        chunk = check.chunk
        if isinstance(chunk, ToolChunk):
            if chunk.whole is not None:
                texts.setdefault("tool", Transcript("")).write(as_read_by_rules(chunk.whole))
        elif chunk is not None:
            whole = texts.get(chunk.channel)
            if whole is None:
                whole = texts[chunk.channel] = Transcript(chunk.text[:0])
            whole.write(chunk.separator)
            whole.write(chunk.text)
            whole.compact()
        emit(check)

    async def judge(clones: Clones) -> Check:
        written = {channel: whole.getvalue() for channel, whole in texts.items()}
        ctx = options.ctx or SimpleContext()
        return await final_check(
            clones, options.backend, ctx, {"text": "", **written}, GenerationMetadata()
        )

    return judge, on_check
