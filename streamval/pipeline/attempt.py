"""One attempt: a generation, judged while it is written, as one chain of operators."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from streamval import bridge
from streamval.aio.tasks import side_by_side
from streamval.backends.base import Delta, note, said_in
from streamval.chunkers.base import Chunker, Resumable, not_sound, not_text
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
from streamval.operators.validate import validate
from streamval.pipeline.seam import mend_seam
from streamval.pipeline.tap import tap
from streamval.requirements.schema import MatchesSchema
from streamval.requirements.whole import judge_whole
from streamval.types.context import Context
from streamval.types.results import Failure, Usage, ValidationResult
from streamval.types.text import Mender, mended
from streamval.types.thunk import GenerationMetadata
from streamval.types.transcript import Transcript
from streamval.validation.shared import SharedState
from streamval.validation.verdicts import Check

if TYPE_CHECKING:
    from collections.abc import Callable

    from reactivex import Observable

    from streamval.backends.base import GenerationRequest
    from streamval.pipeline.delivered import Delivered
    from streamval.pipeline.emitter import Emitter
    from streamval.pipeline.settings import Settings
    from streamval.requirements.base import Requirement
    from streamval.types.chunks import Chunk
    from streamval.validation.checkpoints import Checkpoints
    from streamval.validation.verdicts import Verdict

REFUSED = {
    "content_filter": "the provider's content filter cut it off",
    "refusal": "the model refused",
}
"""The finish reasons of an answer that was not given, or not to its end."""


class Attempt:
    """One generation of a pipeline, from the request to the final validation.

    Args:
        settings: Who speaks and who judges.
        request: What the backend is asked.
        emitter: Publishes events.
        index: Index of the first chunk, where the attempt continues an earlier one.
        checkpoints: Where the lanes keep what they have judged, if a repair may continue.
        delivered: What has been delivered and stands.

    Attributes:
        failures: The requirements that failed, and why.
        validations: The final validations, if it came that far.
        ended_naturally: Whether the text came to its end, and was judged as a whole.
        may_continue: After a failure, whether a repair may go on from the last released chunk.
        released_to: Offset in the text up to which chunks have been released. This and the next two
            are only kept where there are checkpoints.
        next_index: Index of the chunk after those.
        standing_tokens: How many tokens those chunks are.
        known: What the backend tells of the generation besides its text.
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
        self.failures: tuple[Failure, ...] = ()
        self.validations: tuple[ValidationResult, ...] = ()
        self.ended_naturally = False
        self.may_continue = False
        self.released_to = len(request.prefix or "")
        self.next_index = index
        self.standing_tokens = 0
        self.closed_at: float | None = None
        self._settings = settings
        self._judge_backend = settings.validation_backend or settings.backend.going(request.options)
        self._emitter: Emitter | None = emitter
        self._kind: type[str | bytes] = type(settings.nothing)
        self._index = index
        self._checkpoints = checkpoints
        self._judges: tuple[Requirement, ...] = ()
        self._shared: list[SharedState] = []
        self._mender = Mender()
        self._raw: Transcript[Any] = Transcript(request.prefix or settings.nothing)
        self._length = self.released_to
        self.known = GenerationMetadata(settings.backend.model)
        self._delivered = delivered
        self._token_ends: deque[int] | None = None if checkpoints is None else deque()

    def chunks(self) -> Observable[Chunk]:
        """The whole way from the backend's deltas to the chunks that may be delivered."""
        settings, request = self._settings, self.request
        ctx = Context(request.messages)
        asked = settings.retry.asked(request) if settings.retry else request
        deltas: Observable[str] = bridge.from_async_iterable(
            lambda: settings.backend.stream(asked),
            read=self._reader(),
            stall_timeout=settings.stall_timeout,
            on_closed=self._on_closed,
        )
        if request.prefix and asked.prefix is None:  # a model that was asked in words to go on
            deltas = deltas.pipe(mend_seam(request.prefix))
        texts: Observable[str] = deltas.pipe(*settings.delta_operators)
        checks = texts.pipe(
            chunk(
                self._recorded_chunker,
                index=self._index,
                start=len(request.prefix or ""),
                attempt=request.attempt,
            ),
            validate(
                settings.requirements,
                on_verdict=self._on_verdict if settings.emit_verdicts else None,
                backend=self._judge_backend,
                ctx=ctx,
                max_pending_chunks=settings.max_pending_chunks,
                chunking=settings.chunking,
                index=self._index,
                start=len(request.prefix or ""),
                checkpoints=self._checkpoints,
                on_start=self._on_start,
            ),
            tap(self._on_check, then=lambda: self._final_check(ctx)),
        )
        released = checks.pipe(release())
        if self._checkpoints is not None:  # a repair may go on from here
            released = released.pipe(tap(self._on_release))
        chunks: Observable[Chunk] = released.pipe(*settings.chunk_operators)
        return chunks

    @property
    def text(self) -> Any:
        """All that the model has written, and what it continued: text, or bytes of sound."""
        return self._raw.getvalue()

    @property
    def usage(self) -> Usage:
        """Tokens so far: as the backend reports them, else the number of deltas."""
        return self.known.usage or Usage(completion_tokens=self.known.deltas)

    @property
    def schema_judge(self) -> MatchesSchema | None:
        """The clone that judges by the pipeline's `format`, the last one; `None` without one."""
        judge = self._judges[-1] if self._settings.schema is not None and self._judges else None
        return judge if isinstance(judge, MatchesSchema) else None

    def ended(self) -> None:
        """The attempt is over. Drop the emitter, which would keep the run in memory."""
        self._emitter = None

    # The steps of the chain

    def _reader(self) -> Callable[[Any], Any]:
        """From a delta to its text, or `None`. Counts tokens, and notes what the backend reports."""
        kind, mend, known = self._kind, self._mender.feed, self.known
        emitter = self._emitter if self._settings.emit_tokens else None

        def read(delta: Any) -> Any:
            text: Any = delta if type(delta) is kind else self._said_in(delta)
            if not text:
                return None
            known.deltas += 1
            if kind is str and not text.isascii() and not (text := mend(text)):
                return None  # half of a character: the other half follows
            if emitter is not None and isinstance(text, str):
                emitter.emit(TokenEvent, text=text)
            return text

        return read

    def _said_in(self, delta: object) -> Any:
        if isinstance(delta, Delta):
            note(delta, self.known)
        said = said_in(delta)
        return self._of_kind(said) if said != "" else said  # a delta that only reports

    def _of_kind(self, said: Any) -> Any:
        """What was said, if it is of the pipeline's kind."""
        if not isinstance(said, self._kind):
            raise not_text(said) if self._kind is str else not_sound(said)
        return said

    def _recorded_chunker(self) -> Chunker:
        """Make the chunker, and record every text that it gets: delta operators may have changed it."""
        chunker = start_chunker(self._settings.chunking)
        if self.request.prefix and isinstance(chunker, Resumable):
            chunker.resume(self.request.prefix)
        kind, write, feed = self._kind, self._raw.write, chunker.feed
        ends = self._token_ends

        def record(text: Any) -> list[Chunk]:
            write(text if type(text) is kind else self._of_kind(text))
            if ends is not None:
                self._length += len(text)
                ends.append(self._length)
            return feed(text)

        def flush() -> list[Chunk]:
            rest = self._mender.flush()
            return (record(rest) if rest else []) + chunker.flush()

        return _Recorded(record, flush)

    def _on_closed(self) -> None:
        self.closed_at = time.time()

    def _on_start(self, judges: tuple[Requirement, ...]) -> None:
        self._judges = judges
        pairs = zip(self._settings.requirements, judges, strict=True)
        self._shared = [SharedState(original, clone) for original, clone in pairs]

    def check_shared_state(self) -> None:
        """Warn of what judging has changed in the originals, through their shallow copies.

        Warns:
            SharedStateWarning: See `SharedState`.
        """
        for shared in self._shared:
            shared.warn()

    def _on_verdict(self, verdict: Verdict) -> None:
        """Emit what one lane says, as it comes."""
        lane, chunk, result, *_, seconds = verdict
        if seconds is None or self._emitter is None:  # of a lane that is never asked
            return
        self._emitter.emit(
            VerdictEvent,
            chunk_index=chunk.index,
            lane=lane,
            requirement=self._judges[lane].name,
            verdict=result.success,
            reason=result.reason,
            seconds=seconds,
        )

    def _on_check(self, check: Check) -> None:
        """Emit a check, and note which requirements failed."""
        self._raw.compact()
        if check.chunk is None or not self._judges:
            return
        if self._emitter is not None and self._emitter.listening:
            self._emitter.emit(
                QuickCheckEvent,
                chunk_index=check.chunk.index,
                passed=check.success != "fail",
                verdict=check.success,
                results=check.results,
            )
        if check.success == "fail":
            self.failures = tuple(
                Failure(judge.name, result.reason, check.chunk.index, lane, judge.check_only)
                for lane, (judge, result) in enumerate(
                    zip(self._judges, check.results, strict=True)
                )
                if result is not None and result.success == "fail"
            )
            # A failed tail has no text: there is no chunk to write again, so we restart.
            self.may_continue = bool(check.chunk.text) and all(
                self._judges[failure.lane or 0].resumable for failure in self.failures
            )

    def _on_release(self, chunk: Chunk) -> None:
        """A chunk stands: a repair continues behind it."""
        checkpoints, ends = self._checkpoints, self._token_ends
        assert checkpoints is not None
        self.released_to, self.next_index = chunk.end, chunk.index + 1
        while ends and ends[0] <= chunk.end:
            ends.popleft()
            self.standing_tokens += 1
        checkpoints.delivered(chunk.index)

    def _final_check(self, ctx: Context) -> Observable[Check] | None:
        """After a natural end: the check of the whole output. After a failure: nothing."""
        if self.failures:
            return None
        return bridge.from_coroutine(lambda: self._judge_whole(ctx))

    async def _judge_whole(self, ctx: Context) -> Check:
        """Every requirement judges the whole output, beside the others."""
        self.ended_naturally = True
        emitter = self._emitter
        assert emitter is not None
        emitter.emit(
            StreamingDoneEvent,
            full_text=self._delivered.text,
            finish_reason=self.known.finish_reason,
        )
        self.failures = self._refused()
        if self._judges and not self.failures:
            whole = ctx.with_output(self.text, self.known)
            backend = self._judge_backend
            verdicts = (judge_whole(j, backend, whole, streamed=True) for j in self._judges)
            self.validations = tuple(await side_by_side(*verdicts))
            self.failures = tuple(
                Failure(judge.name, _why(result), None, lane, judge.check_only)
                for lane, (judge, result) in enumerate(
                    zip(self._judges, self.validations, strict=True)
                )
                if not result
            )
            emitter.emit(FullValidationEvent, passed=not self.failures, results=self.validations)
        return Check(None, "fail" if self.failures else "pass")

    def _refused(self) -> tuple[Failure, ...]:
        """The failure of an answer that the model refused, or that the provider's filter cut off."""
        if (why := self.known.finish_reason) not in REFUSED:
            return ()
        reason = REFUSED[why]
        if refusal := mended(self.known.refusal.strip()):
            reason = f"{reason}: {refusal}"
        return (Failure("the model answers", reason),)


class _Recorded(NamedTuple):
    """A chunker of two functions."""

    feed: Callable[[str], list[Chunk]]
    flush: Callable[[], list[Chunk]]


def _why(result: ValidationResult) -> str | None:
    if result.reason and result.error:
        return f"{result.reason} ({result.error})"
    return result.reason or result.error
