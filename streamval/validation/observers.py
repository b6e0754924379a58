"""Requirements that observe: each has a fan of its own, beside the one whose verdicts decide.

    chunks ─┬─ fan of all requirements that decide ─▶ checks
            ├─ fan of observer 1 ─▶ verdicts
            └─ fan of observer n ─▶ verdicts

So an observer cannot fail a chunk, hold one back or delay one. It judges up to its first failure, as it would if it
decided. Only the end of the stream waits for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from streamval.aio.scope import Scope
from streamval.types.channels import Channel
from streamval.types.chunks import Chunk
from streamval.types.results import PartialValidationResult
from streamval.validation.fan import Fan, FanCallbacks
from streamval.validation.options import Clones, FanOptions
from streamval.validation.verdicts import Verdict

FELL_BEHIND = PartialValidationResult(
    "unknown", reason="it fell behind, and has stopped judging: the stream does not wait for it"
)


class Observers:
    """A fan and those of the observers beside it. Takes chunks as a fan does.

    Args:
        options: The requirements, and the options of judging.
        scope: Owns the tasks.
        callbacks: Where to report, as for a fan. `ended` is called once the observers have judged, too.
        on_observed: Called with each verdict of an observer as it comes.
    """

    def __init__(
        self,
        options: FanOptions,
        scope: Scope,
        callbacks: FanCallbacks,
        on_observed: Callable[[Verdict], None] | None,
    ) -> None:
        self._options, self._on_observed = options, on_observed
        self._ended, self._failed = callbacks.ended, callbacks.failed
        self._cancels = callbacks.cancel_source is not None
        self._fan = Fan(options, scope, callbacks._replace(ended=self._judged))
        self._clones: Clones | None = None
        self._waiting_for = 0
        self._observing: dict[int, Fan] = {}
        self._made: dict[int, Clones] = {}
        for position, requirement in enumerate(options.requirements):
            if not requirement.enforce:
                self._observing[position] = self._fan_of(position, scope)

    def _fan_of(self, position: int, scope: Scope) -> Fan:
        def made(clones: Clones) -> None:
            self._made[position] = clones

        def on_verdict(verdict: Verdict) -> None:
            if verdict.lane != position:  # of a channel that it does not judge
                return
            if verdict.result.success == "fail" and verdict.requirement is not None:
                verdict.requirement.observed = verdict.result
            if self._on_observed is not None:
                self._on_observed(verdict)

        callbacks = FanCallbacks(self._failed, lambda _: self._one_less(), on_verdict=on_verdict)
        options = replace(
            self._options,
            only=position,
            checkpoints=None,  # it begins anew with each attempt
            on_start=made,
            max_pending_chunks=sys.maxsize,  # it never pauses the source
        )
        return Fan(options, scope, callbacks)

    def on_chunk(self, chunk: Chunk) -> None:
        """Judge a chunk."""
        if self._is_over():
            return
        self._fan.on_chunk(chunk)
        for position, fan in list(self._observing.items()):
            if fan.pending < self._options.max_pending_chunks:
                fan.on_chunk(chunk)
            else:
                self._give_up(position, chunk)

    def on_completed(self) -> None:
        """No more chunks will come."""
        if self._is_over():
            return
        self._waiting_for = len(self._observing) + 1
        for fan in list(self._observing.values()):
            fan.on_completed()
        self._fan.on_completed()

    def on_error(self, error: BaseException) -> None:
        """Stop, because the source or a validator has raised."""
        self._stop_observing()
        self._fan.on_error(error)

    def stop(self) -> None:
        """Stop: no verdict is needed any more."""
        self._stop_observing()
        self._fan.stop()

    def _is_over(self) -> bool:
        """Return whether a failure has cancelled the source: the rest of a delta may still come."""
        return self._cancels and not self._fan.wants_more

    def _give_up(self, position: int, chunk: Chunk) -> None:
        self._observing.pop(position).stop()
        requirement = self._options.requirements[position]
        if self._on_observed is not None:
            self._on_observed(
                Verdict(position, chunk, FELL_BEHIND, requirement=requirement, seconds=0.0)
            )

    def _judged(self, clones: Clones | None) -> None:
        """The requirements that decide have judged all; `None` if one of them has failed a chunk."""
        if clones is None:
            self._stop_observing()
            self._ended(None)
            return
        self._clones = clones
        self._one_less()

    def _one_less(self) -> None:
        self._waiting_for -= 1
        if self._clones is not None and self._waiting_for <= 0:
            clones, self._clones = self._clones, None
            self._ended(self._with_observers(clones))

    def _with_observers(self, clones: Clones) -> Clones:
        """Return all clones in the order of the requirements."""
        whole: dict[Channel, tuple[Any, ...]] = {}
        for channel, those in clones.items():
            whole[channel] = tuple(
                self._made[at][channel][at] if at in self._observing else one
                for at, one in enumerate(those)
            )
        return whole

    def _stop_observing(self) -> None:
        for fan in self._observing.values():
            fan.stop()
