"""One attempt: a generation, judged while it is written."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

from reactivex import Observable
from reactivex import operators as ops
from reactivex.disposable import CompositeDisposable, Disposable, SerialDisposable

from streamval import bridge
from streamval.audio import AudioChunk
from streamval.backends.base import Delta, said_in
from streamval.chunkers.base import Resumable, not_sound, not_text, shifted, start_chunker
from streamval.context import Context
from streamval.events import (
    ChunkEvent,
    FullValidationEvent,
    QuickCheckEvent,
    StreamingDoneEvent,
    TokenEvent,
)
from streamval.fan import Fan, FanOptions
from streamval.operators.chunk import chunk
from streamval.requirements.whole import judge_whole
from streamval.results import Failure, Usage, ValidationResult
from streamval.scope import running_loop, scope, side_by_side
from streamval.transcript import Transcript
from streamval.verdicts import Check, ReleaseOrder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase

    from streamval.backends.base import GenerationRequest
    from streamval.checkpoints import Checkpoints
    from streamval.chunks import Chunk
    from streamval.events import BaseEvent
    from streamval.pipeline import Pipeline
    from streamval.requirements.base import Requirement


T = TypeVar("T")


class Attempt:
    """One generation of a pipeline, from the request to the final validation.

    Args:
        pipeline: What is generated with, and judged by.
        request: What the backend is asked.
        emit: Publishes an event, given its class and fields.
        index: Index of the first chunk, where the attempt continues an earlier one.
        checkpoints: Where the lanes keep what they have judged, if a repair may continue.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        request: GenerationRequest,
        emit: Callable[[type[BaseEvent], dict[str, Any]], None],
        *,
        index: int = 0,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        self.request = request
        self.failures: tuple[Failure, ...] = ()
        self.validations: tuple[ValidationResult, ...] = ()
        self.ended_naturally = False
        self.may_continue = False
        self.released_to = len(request.prefix or "")
        self.next_index = index
        self.standing_tokens = 0
        self._pipeline = pipeline
        self._emit = emit
        self._emit_tokens = pipeline.emit_tokens
        self._kind: type[str | bytes] = type(pipeline.nothing)
        self._index = index
        self._checkpoints = checkpoints
        self._judges: tuple[Requirement, ...] = ()
        self._raw: Transcript[Any] = Transcript(request.prefix or pipeline.nothing)
        self._length = self.released_to
        self._tokens = 0
        self._reported: Usage | None = None
        self._token_ends: deque[int] = deque()

    @property
    def text(self) -> Any:
        """All that the model has written, what it continued included: text, or bytes of sound."""
        return self._raw.getvalue()

    @property
    def usage(self) -> Usage:
        """Tokens so far: as the backend reports them, else the deltas."""
        if self._reported is not None:
            return self._reported
        return Usage(completion_tokens=self._tokens)

    def ended(self) -> None:
        """It is over: keep what it came to, and nothing of the run, which keeps it."""
        self._emit = _nobody

    def delivered(self) -> Observable[Chunk]:
        """The whole way from deltas to delivered chunks."""
        chunks = Observable(self._subscribe)
        if not self._pipeline.chunk_operators:
            return chunks
        return _on_the_loop(chunks.pipe(_on_no_scheduler, *self._pipeline.chunk_operators))

    def _subscribe(
        self, observer: ObserverBase[Chunk], scheduler: SchedulerBase | None = None
    ) -> DisposableBase:
        """Chunks to the lanes; each check told of, the final one too; out what they let through.

        The operators `fan_out`, `cancel_on_fail`, `merge_tri_state` and `release` are these parts
        with an observable around each; here they do without, as all of it runs for each chunk.
        """
        pipeline, request = self._pipeline, self.request
        ctx = Context(request.messages)
        order = ReleaseOrder()
        source = SerialDisposable()

        def on_check(check: Check) -> None:
            self._on_check(check)
            for released in order.check(check):
                self._on_release(released)
                observer.on_next(released)

        def on_ended() -> None:
            if self.failures:
                observer.on_completed()
                return
            final = bridge.from_coroutine(lambda: self._final_check(ctx), owner=owner)
            source.disposable = final.subscribe(
                on_check, observer.on_error, observer.on_completed, scheduler=scheduler
            )

        options = FanOptions(
            pipeline.requirements,
            backend=pipeline.validation_backend,
            ctx=ctx,
            max_pending_chunks=pipeline.max_pending_chunks,
            chunking=pipeline.chunking,
            index=self._index,
            start=len(request.prefix or ""),
            checkpoints=self._checkpoints,
            on_start=self._on_start,
        )
        with scope() as owner:  # the stream may end in a context that is not this run's
            fan = Fan(
                options,
                owner,
                observer.on_error,
                on_ended,
                on_check=on_check,
                cut=source.dispose,
            )
            source.disposable = self._chunks().subscribe(
                fan.on_chunk, fan.on_error, fan.on_completed, scheduler=scheduler
            )
        return CompositeDisposable(source, Disposable(fan.stop))

    def deliver(self, chunk: Chunk) -> None:
        """Tell subscribers of a chunk that came through."""
        told = {
            "text": chunk.text,
            "chunk_index": chunk.index,
            "start": chunk.start,
            "end": chunk.end,
            "separator": chunk.separator,
        }
        if isinstance(chunk, AudioChunk):
            told |= {"text": "", "separator": "", "audio": chunk.text}
        self._emit(ChunkEvent, told)

    def _chunks(self) -> Observable[Chunk]:
        """What the backend says: through the user's delta operators, recorded, cut."""
        pipeline, prefix = self._pipeline, self.request.prefix or ""
        start, chunker = len(prefix), start_chunker(pipeline.chunking)
        if prefix and isinstance(chunker, Resumable):
            chunker.resume(prefix)
        if pipeline.delta_operators:
            texts: Observable[str] = self._source(self._count).pipe(*pipeline.delta_operators)
            return _on_the_loop(texts).pipe(
                ops.map(self._record), chunk(lambda: chunker, index=self._index, start=start)
            )
        # The same without an observable for each step, as it runs once a token.
        feed, write, index = chunker.feed, self._raw.write, self._index
        kind, tells, notes = self._kind, self._emit_tokens, self._checkpoints is not None

        def placed(found: list[Chunk]) -> list[Chunk]:
            return [shifted(one, start, index) for one in found] if start or index else found

        def cut(delta: str | Delta) -> Sequence[Chunk]:
            text: Any = delta
            if tells or type(delta) is not kind or not delta:
                text = next(iter(self._count(delta)), None)
                if text is None:
                    return ()
            else:
                self._tokens += 1
            write(text)
            if notes:
                self._note_end(text)
            found = feed(text)
            return placed(found) if found else ()

        return self._source(cut, lambda: placed(chunker.flush()))

    def _source(
        self,
        each: Callable[[Any], Sequence[T]],
        last: Callable[[], Sequence[T]] | None = None,
    ) -> Observable[T]:
        pipeline = self._pipeline
        return bridge.from_async_iterable(
            lambda: pipeline.backend.stream(self.request),
            each=each,
            last=last,
            stall_timeout=pipeline.stall_timeout,
        )

    def _count(self, delta: str | Delta) -> tuple[Any, ...]:
        text = delta if type(delta) is self._kind else self._unwrap(delta)
        if not text:
            return ()
        self._tokens += 1
        if self._emit_tokens and isinstance(text, str):
            self._emit(TokenEvent, {"text": text})
        return (text,)

    def _record(self, text: Any) -> Any:
        self._raw.write(self._of_kind(text))
        if self._checkpoints is not None:
            self._note_end(text)
        return text

    def _note_end(self, text: str) -> None:
        self._length += len(text)
        self._token_ends.append(self._length)

    def _unwrap(self, delta: str | Delta) -> Any:
        if isinstance(delta, Delta) and delta.usage is not None:
            self._reported = delta.usage
        said = said_in(delta)
        return self._of_kind(said) if said != "" else said  # a delta that only reports

    def _of_kind(self, said: Any) -> Any:
        """What was said, if it is of the pipeline's kind: no other may get into the transcript."""
        if not isinstance(said, self._kind):
            raise not_text(said) if self._kind is str else not_sound(said)
        return said

    def _on_start(self, judges: tuple[Requirement, ...]) -> None:
        self._judges = judges

    def _on_check(self, check: Check) -> None:
        """Tell subscribers of a check, and note who failed."""
        self._raw.compact()
        if check.chunk is None or not self._judges:
            return
        told = {
            "chunk_index": check.chunk.index,
            "passed": check.success != "fail",
            "verdict": check.success,
            "results": check.results,
        }
        self._emit(QuickCheckEvent, told)
        if check.success == "fail":
            self.failures = tuple(
                Failure(judge.name, result.reason, check.chunk.index, lane, judge.check_only)
                for lane, (judge, result) in enumerate(
                    zip(self._judges, check.results, strict=True)
                )
                if result is not None and result.success == "fail"
            )
            # A failed tail: everything before it was delivered, so there is nothing to go on from.
            self.may_continue = bool(check.chunk.text) and all(
                self._judges[failure.lane or 0].resumable for failure in self.failures
            )

    def _on_release(self, chunk: Chunk) -> None:
        """A chunk stands: a repair continues behind it."""
        self.released_to, self.next_index = chunk.end, chunk.index + 1
        while self._token_ends and self._token_ends[0] <= chunk.end:
            self._token_ends.popleft()
            self.standing_tokens += 1
        if self._checkpoints is not None:
            self._checkpoints.delivered(chunk.index)

    async def _final_check(self, ctx: Context) -> Check:
        """After a natural end: every requirement judges the whole output, beside the others."""
        self.ended_naturally = True
        text = self.text
        self._emit(StreamingDoneEvent, {"full_text": text if isinstance(text, str) else ""})
        if self._judges:
            whole = ctx.with_output(text)
            backend = self._pipeline.validation_backend
            self.validations = tuple(
                await side_by_side(*(judge_whole(j, backend, whole) for j in self._judges))
            )
            self.failures = tuple(
                Failure(judge.name, _why(result), None, lane, judge.check_only)
                for lane, (judge, result) in enumerate(
                    zip(self._judges, self.validations, strict=True)
                )
                if not result
            )
            passed = not self.failures
            self._emit(FullValidationEvent, {"passed": passed, "results": self.validations})
        return Check(None, "fail" if self.failures else "pass")


def _nobody(event: type[BaseEvent], told: dict[str, Any]) -> None:
    del event, told


def _why(result: ValidationResult) -> str | None:
    if result.reason and result.error:
        return f"{result.reason} ({result.error})"
    return result.reason or result.error


def _on_the_loop(source: Observable[T]) -> Observable[T]:
    """Subscribe with a scheduler of this loop: without one, a timer of reactivex fires on a thread."""

    def subscribe(
        observer: ObserverBase[T], scheduler: SchedulerBase | None = None
    ) -> DisposableBase:
        from reactivex.scheduler.eventloop import AsyncIOScheduler  # noqa: PLC0415  only where used

        scheduler = scheduler or AsyncIOScheduler(running_loop())
        return source.subscribe(observer, scheduler=scheduler)

    return Observable(subscribe)


def _on_no_scheduler(source: Observable[T]) -> Observable[T]:
    """Keep a scheduler that was meant for the operators downstream from those upstream."""

    def subscribe(
        observer: ObserverBase[T],
        scheduler: SchedulerBase | None = None,  # noqa: ARG001  what it is there for
    ) -> DisposableBase:
        return source.subscribe(observer)

    return Observable(subscribe)
