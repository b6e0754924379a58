"""`merge_tri_state`: joins the verdicts of all lanes into one check for each chunk."""

from __future__ import annotations

from collections.abc import Callable

from reactivex import Observable

from streamval.operators.stateful import stateful
from streamval.validation.verdicts import Check, TriStateMerge, Verdict


def merge_tri_state() -> Callable[[Observable[Verdict]], Observable[Check]]:
    """Join verdicts into checks, in chunk order: fail beats unknown beats pass.

    A check is emitted when every lane has judged the chunk, or one lane has failed it, and all
    earlier chunks are done. The first failed check is the last.

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

    def start(emit: Callable[[Check], None]) -> Callable[[Verdict], None]:
        take = TriStateMerge().add

        def on_next(verdict: Verdict) -> None:
            for check in take(verdict):
                emit(check)

        return on_next

    return stateful(start)
