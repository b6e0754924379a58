"""`merge_tri_state`: the verdicts of all lanes into one check a chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reactivex import Observable

from streamval.validation.verdicts import TriStateMerge

if TYPE_CHECKING:
    from collections.abc import Callable

    from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase

    from streamval.validation.verdicts import Check, Verdict


def merge_tri_state() -> Callable[[Observable[Verdict]], Observable[Check]]:
    """Join verdicts into checks, in chunk order: fail beats unknown beats pass.

    A check comes out once every lane has spoken on its chunk, or one has failed it, and all
    chunks before it are done. Nothing comes after the first failed check.

    Returns:
        An operator; errors and completion pass through.

    Example:
        >>> import reactivex
        >>> from streamval.types.chunks import Chunk
        >>> from streamval.types.results import PartialValidationResult as Result
        >>> from streamval.validation.verdicts import Verdict
        >>> one = Chunk("One.", 0, 0, 4)
        >>> verdicts = reactivex.of(
        ...     Verdict(1, one, Result("pass"), lanes=2), Verdict(0, one, Result("unknown"), lanes=2)
        ... )
        >>> _ = verdicts.pipe(merge_tri_state()).subscribe(lambda check: print(check.success))
        unknown
    """

    def operator(source: Observable[Verdict]) -> Observable[Check]:
        def subscribe(
            observer: ObserverBase[Check], scheduler: SchedulerBase | None = None
        ) -> DisposableBase:
            merge = TriStateMerge()

            def on_next(verdict: Verdict) -> None:
                for check in merge.add(verdict):
                    observer.on_next(check)

            return source.subscribe(
                on_next, observer.on_error, observer.on_completed, scheduler=scheduler
            )

        return Observable(subscribe)

    return operator
