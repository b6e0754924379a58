"""One attempt: a generation, judged while it is written, as one chain of operators.

    backend.stream ─ read ─ your delta operators ─ chunk ─ validate ─ release ─▶
                                                     └─ record

`DeltaReader` reads, `Written` records the text that is cut, `final_check` judges the whole. They are
plain objects that never call back; this module joins them, and emits the events of the attempt.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from reactivex import Observable

from streamval import bridge
from streamval.backends.base import Backend, GenerationRequest
from streamval.chunkers.base import Chunker, Resumable
from streamval.chunkers.chunking import start_chunker
from streamval.events import (
    FullValidationEvent,
    QuickCheckEvent,
    StreamingDoneEvent,
    TokenEvent,
    VerdictEvent,
)
from streamval.operators.chunk import chunk
from streamval.operators.release import release
from streamval.operators.stateful import stateful
from streamval.operators.validate import validate
from streamval.pipeline.delivered import Delivered
from streamval.pipeline.delta_reader import DeltaReader
from streamval.pipeline.emitter import Emitter
from streamval.pipeline.seam import mend_seam
from streamval.pipeline.settings import Settings
from streamval.pipeline.written import Written, recorded
from streamval.requirements.base import Requirement
from streamval.requirements.schema import MatchesSchema
from streamval.requirements.shared_state import SharedState
from streamval.types.chunks import Chunk
from streamval.types.context import Context
from streamval.types.results import Failure, ValidationResult
from streamval.validation.checkpoints import Checkpoints
from streamval.validation.final_check import final_check
from streamval.validation.verdicts import Check, Verdict

T = TypeVar("T")


class Attempt:
    """One generation of a pipeline, from the request to the final check.

    Args:
        settings: The settings of the pipeline.
        request: The request to the backend.
        emitter: Publishes events.
        index: Index of the first chunk, where the attempt continues an earlier one.
        checkpoints: Where the lanes keep their state, if a repair may continue.
        delivered: The output of the run that stands.

    Attributes:
        reader: Reads the deltas; has the tokens and the finish reason.
        written: The raw text; with checkpoints, the offset up to which it has been released.
        failures: The requirements that failed, and why.
        validations: The final validations, if it came that far.
        ended_naturally: Whether the text came to its end, so that the final check began.
        may_continue: After a failure, whether a repair may continue from the last released chunk.
        closed_at: When the backend was closed, in Unix seconds; `None` before that.
    """

    def __init__(
        self,
        settings: Settings,
        request: GenerationRequest,
        emitter: Emitter,
        *,
        index: int = 0,
        checkpoints: Checkpoints | None = None,
        delivered: Delivered,
    ) -> None:
        self.request = request
        self.reader = DeltaReader(settings.backend.model, type(settings.nothing))
        self.written = Written(
            request.prefix or settings.nothing, index, counts=checkpoints is not None
        )
        self.failures: tuple[Failure, ...] = ()
        self.validations: tuple[ValidationResult, ...] = ()
        self.ended_naturally = False
        self.may_continue = False
        self.closed_at: float | None = None
        self._settings = settings
        self._emitter: Emitter | None = emitter
        self._checkpoints = checkpoints
        self._delivered = delivered
        self._clones: tuple[Requirement, ...] = ()
        self._shared: list[SharedState] = []

    def chunks(self) -> Observable[Chunk]:
        """Return the whole chain, from the backend's deltas to the chunks that may be delivered."""
        settings, request, written = self._settings, self.request, self.written
        index, start = written.next_index, written.released_to
        ctx = Context(request.messages)
        judge = settings.validation_backend or settings.backend.for_judges(request.options)
        sent = settings.retry.asked(request) if settings.retry else request
        deltas: Observable[str] = bridge.from_async_iterable(
            lambda: settings.backend.stream(sent),
            read=self.reader.read,
            stall_timeout=settings.stall_timeout,
            on_closed=self._on_closed,
        )
        if settings.emit_tokens:
            deltas = deltas.pipe(tap(self._emit_token))
        if request.prefix and sent.prefix is None:  # a model that was asked in words to continue
            deltas = deltas.pipe(mend_seam(request.prefix))
        texts: Observable[str] = deltas.pipe(*settings.delta_operators)
        checks = texts.pipe(
            chunk(self._new_chunker, index=index, start=start, attempt=request.attempt),
            validate(
                settings.requirements,
                final=lambda _: self._judge_whole(judge, ctx),
                on_verdict=self._emit_verdict if settings.emit_verdicts else None,
                backend=judge,
                ctx=ctx,
                max_pending_chunks=settings.max_pending_chunks,
                chunking=settings.chunking,
                index=index,
                start=start,
                checkpoints=self._checkpoints,
                on_start=self._on_start,
            ),
            tap(self._on_check),
        )
        released = checks.pipe(release())
        if self._checkpoints is not None:  # a repair may continue from here
            released = released.pipe(tap(written.release), tap(self._checkpoints.released))
        return released

    @property
    def schema_requirement(self) -> MatchesSchema | None:
        """The clone that judges by the pipeline's `format`, the last one; `None` without a format."""
        last = self._clones[-1] if self._settings.schema is not None and self._clones else None
        return last if isinstance(last, MatchesSchema) else None

    def drop_emitter(self) -> None:
        """Drop the emitter, which would keep the run in memory."""
        self._emitter = None

    def warn_of_shared_state(self) -> None:
        """Warn if judging has changed the originals, through their shallow copies.

        Warns:
            SharedStateWarning: See `SharedState`.
        """
        for shared in self._shared:
            shared.warn()

    # The steps of the chain

    def _emit(self, event: type[Any], **fields: Any) -> None:
        if self._emitter is not None:
            self._emitter.emit(event, self.request.attempt, **fields)

    def _emit_token(self, text: str) -> None:
        if isinstance(text, str):  # sound has no tokens
            self._emit(TokenEvent, text=text)

    def _new_chunker(self) -> Chunker:
        chunker = start_chunker(self._settings.chunking)
        if self.request.prefix and isinstance(chunker, Resumable):
            chunker.resume(self.request.prefix)
        return recorded(chunker, self.written, self.reader.flush)

    def _on_closed(self) -> None:
        self.closed_at = time.time()

    def _on_start(self, clones: tuple[Requirement, ...]) -> None:
        self._clones = clones
        pairs = zip(self._settings.requirements, clones, strict=True)
        self._shared = [SharedState(original, clone) for original, clone in pairs]

    def _emit_verdict(self, verdict: Verdict) -> None:
        if verdict.seconds is None:  # of a lane that is never asked
            return
        self._emit(
            VerdictEvent,
            chunk_index=verdict.chunk.index,
            lane=verdict.lane,
            requirement=self._clones[verdict.lane].name,
            verdict=verdict.result.success,
            reason=verdict.result.reason,
            seconds=verdict.seconds,
        )

    def _on_check(self, check: Check) -> None:
        """Emit the check of a chunk, or of the whole output, and note which requirements failed it."""
        self.written.compact()
        self.failures = check.failures
        if check.chunk is None:
            self._on_final(check)
            return
        if not self._clones:
            return
        if self._emitter is not None and self._emitter.listening:
            self._emitter.emit(
                QuickCheckEvent,
                self.request.attempt,
                chunk_index=check.chunk.index,
                passed=check.success != "fail",
                verdict=check.success,
                results=check.results,
            )
        if check.success == "fail":
            # A failed tail has no text: there is no chunk to write again, so a repair restarts.
            self.may_continue = bool(check.chunk.text) and all(
                self._clones[failure.lane or 0].resumable for failure in self.failures
            )

    async def _judge_whole(self, judge: Backend, ctx: Context) -> Check:
        self.ended_naturally = True
        known = self.reader.known
        self._emit(
            StreamingDoneEvent, full_text=self._delivered.text, finish_reason=known.finish_reason
        )
        whole = ctx.with_output(self.written.text, known)
        return await final_check(self._clones, judge, whole, known)

    def _on_final(self, check: Check) -> None:
        results = tuple(one for one in check.results if isinstance(one, ValidationResult))
        if results:  # none of a refusal, which was not judged
            self.validations = results
            self._emit(FullValidationEvent, passed=not check.failures, results=results)


def tap(look: Callable[[T], None]) -> Callable[[Observable[T]], Observable[T]]:
    """Return an operator that calls `look` with each item before it passes the item on, as `ops.do_action`.

    That one costs more, which a token would feel.
    """

    def start(emit: Callable[[T], None]) -> Callable[[T], None]:
        def on_next(item: T) -> None:
            look(item)
            emit(item)

        return on_next

    return stateful(start)
