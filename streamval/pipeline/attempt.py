"""One attempt: a generation, judged while it is written, as one chain of operators.

    backend.stream ─ read ─ your delta operators ─ chunk ─ validate ─ release ─▶
                                                     └─ record

`DeltaReader` reads, `Written` records the text that is cut, `final_check` judges the whole. They are
plain objects that never call back; this module joins them, and emits the events of the attempt.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from reactivex import Observable, Subject
from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase
from reactivex.disposable import CompositeDisposable

from streamval import bridge
from streamval.aio.on_loop import OnLoop
from streamval.backends.base import Backend, GenerationRequest
from streamval.chunkers.base import Resumable
from streamval.chunkers.channels import ChannelChunker, waits
from streamval.chunkers.chunking import chunking_on, start_chunker
from streamval.chunkers.tool import ToolChunk
from streamval.events import (
    FullValidationEvent,
    QuickCheckEvent,
    StreamingDoneEvent,
    TokenEvent,
    VerdictEvent,
)
from streamval.operators.chunk import chunk
from streamval.operators.stateful import passing_on
from streamval.operators.validate import validate
from streamval.pipeline.delivered import Delivered
from streamval.pipeline.delta_reader import DeltaReader
from streamval.pipeline.emitter import Emitter
from streamval.pipeline.seam import mend_seam, skip_blank, split_word
from streamval.pipeline.settings import Settings
from streamval.pipeline.written import RecordedChunker, Written, recorded
from streamval.requirements.masking import Masking
from streamval.requirements.schema import MatchesSchema
from streamval.types.channels import Channel
from streamval.types.chunks import Chunk
from streamval.types.context import Context
from streamval.types.deltas import Delta
from streamval.types.messages import ToolCall, texts_in
from streamval.types.results import Failure, ValidationResult
from streamval.types.text import mended
from streamval.validation.checkpoints import Checkpoints
from streamval.validation.final_check import REFUSED, as_read_by_rules, final_check
from streamval.validation.masking import Masks
from streamval.validation.options import Clones
from streamval.validation.release import ReleaseOrder
from streamval.validation.shared_state import SharedState
from streamval.validation.verdicts import Check, Verdict


class Attempt:
    """One generation of a pipeline, from the request to the final check.

    Args:
        settings: The settings of the pipeline.
        backend: The backend that generates.
        request: The request to the backend.
        emitter: Publishes events.
        index: Index of the first chunk, where the attempt continues an earlier one.
        reasoning_index: Index of the first chunk of reasoning, where reasoning was kept.
        checkpoints: Where the lanes keep their state, if a repair may continue.
        delivered: The output of the run that stands.
        masks: The masks of that output.

    Attributes:
        reader: Reads the deltas; has the tokens and the finish reason.
        written: The raw text; with checkpoints, the offset up to which it has been released.
        reasoning: The same for the reasoning.
        calls: The calls of tools that were whole, and passed.
        failures: The requirements that failed, and why.
        validations: The final validations, if it came that far.
        ended_naturally: Whether the text came to its end, so that the final check began.
        may_continue: After a failure, whether a repair may continue from the last released chunk.
        failed_on: The channel of the chunk that failed; `None` where no chunk did.
        closed_at: When the backend was closed, in Unix seconds; `None` before that.
        broken: The exception with which the backend broke off.
        error: The same in words, once the stream is resumed.
        shown: The text and the reasoning for its result, where a requirement masks: what was delivered of it.
    """

    def __init__(
        self,
        settings: Settings,
        backend: Backend,
        request: GenerationRequest,
        emitter: Emitter,
        *,
        index: int = 0,
        reasoning_index: int = 0,
        checkpoints: Checkpoints | None = None,
        delivered: Delivered,
        masks: Masks,
    ) -> None:
        self.request = request
        # Reasoning that is not delivered is judged by the requirements that ask for it.
        wants_reasoning = "reasoning" in settings.delivered or any(
            "reasoning" in (one.listens or ()) for one in settings.requirements
        )
        self.reader = DeltaReader(backend.model, type(settings.nothing), reasoning=wants_reasoning)
        counts = checkpoints is not None
        self.written = Written(request.prefix or settings.nothing, index, counts=counts)
        self.reasoning = Written(request.reasoning_prefix or "", reasoning_index, counts=counts)
        self.calls: list[ToolCall] = []
        self.failed_on: Channel | None = None
        self.failures: tuple[Failure, ...] = ()
        self.validations: tuple[ValidationResult, ...] = ()
        self.ended_naturally = False
        self.may_continue = False
        self.closed_at: float | None = None
        self.broken: BaseException | None = None
        self.error: str | None = None
        self._settings = settings
        self._backend = backend
        self._emitter: Emitter | None = emitter
        self._checkpoints = checkpoints
        self._delivered = delivered
        self._masks = masks
        self._may_mask = settings.masks  # asked for each chunk
        self.shown: tuple[Any, str] | None = None
        self._clones: Clones = {}
        self._shared = list(map(SharedState, settings.requirements))

    def chunks(self) -> Observable[Chunk]:
        """Return the whole chain, from the backend's deltas to the chunks that may be delivered."""
        settings, request, written = self._settings, self.request, self.written
        backend, sent, operators = self._backend, *self._sent()
        index, start = written.next_index, written.released_to
        ctx = Context(request.messages)
        judge = settings.validation_backend or backend.for_judges(request.options)
        operators += settings.delta_operators
        emits = settings.emit_tokens and not settings.masks
        deltas: Observable[Any] = bridge.from_async_iterable(
            lambda: backend.deltas(sent),
            read=self._read_and_emit if emits else self.reader.read,
            stall_timeout=settings.stall_timeout,
            on_closed=self._on_closed,
        )
        if operators:
            deltas = deltas.pipe(on_text(*operators))
        reasoning = (self.reasoning.next_index, self.reasoning.released_to)
        return deltas.pipe(
            chunk(
                make=self._new_chunker,
                index=index,
                start=start,
                reasoning=reasoning,
                attempt=request.attempt,
            ),
            validate(
                settings.requirements,
                final=lambda clones: self._judge_whole(clones, judge, ctx),
                on_verdict=self._emit_verdict if settings.emit_verdicts else None,
                on_observed=self._emit_verdict,
                backend=judge,
                ctx=ctx,
                max_pending_chunks=settings.max_pending_chunks,
                chunking=settings.chunking,
                index=index,
                start=start,
                checkpoints=self._checkpoints,
                delivered=settings.delivered,
                reasoning=reasoning,
                said={"text": lambda: written.text, "reasoning": lambda: self.reasoning.text},
                on_start=self._on_start,
            ),
            passing_on(self._start_release),
        )

    def _sent(self) -> tuple[GenerationRequest, list[Any]]:
        """Return the request for the backend, and the operators that join its continuation to the kept text."""
        request, retry = self.request, self._settings.retry
        if retry is None or not isinstance(request.prefix, str):
            return request, []
        kept = request.prefix
        if retry.mode == "ask" or not self._backend.supports_prefix:
            whole, _ = split_word(kept)
            return retry.asked(replace(request, prefix=whole)), [mend_seam(kept), skip_blank(kept)]
        if kept == kept.rstrip():
            return request, []
        return replace(request, prefix=kept.rstrip()), [skip_blank(kept)]

    @property
    def schema_requirement(self) -> MatchesSchema | None:
        """The clone that judges by the pipeline's `format`, the last one; `None` without a format."""
        clones = self._clones.get("text")
        last = clones[-1] if self._settings.schema is not None and clones else None
        return last if isinstance(last, MatchesSchema) else None

    @property
    def refused(self) -> bool:
        """Whether it failed because the model refused, or its provider's filter cut it off."""
        return self.ended_naturally and self.reader.known.finish_reason in REFUSED

    @property
    def has_released(self) -> bool:
        """Whether something of it was delivered, beside the text that it continues."""
        kept, thought = self.request.prefix, self.request.reasoning_prefix
        return (
            self.written.released_to > len(kept or "")
            or self.reasoning.released_to > len(thought or "")
            or bool(self.calls)
        )

    @property
    def opaque(self) -> list[tuple[Mapping[str, Any], int]]:
        """The blocks of signed or encrypted reasoning that go back to the provider, with their places.

        The text of a block that can be read has been judged and delivered as reasoning. Others are left out.
        """
        thought = self.reasoning.text if "reasoning" in self._settings.delivered else ""
        thought = self._masks.over("reasoning", thought)
        known = self.reader.known
        blocks = zip(known.opaque, known.opaque_places, strict=True)
        return [one for one in blocks if all(text in thought for text in texts_in(one[0]))]

    def let_go(self) -> None:
        """Drop the emitter and the lanes, which would keep the run in memory."""
        self._emitter = None
        self._clones = {"text": self._clones["text"]} if self._clones else {}

    def seal(self) -> None:
        """Keep what its result may show, as later attempts change the masks."""
        if self._may_mask:
            text, reasoning = self.written, self.reasoning
            self.shown = (
                self._masks.over("text", text.text[: text.released_to]),
                self._masks.over("reasoning", reasoning.text[: reasoning.released_to]),
            )

    def hide(self, text: str | None) -> str | None:
        """Return a text of a requirement or a server without what is masked."""
        if not text or not self._may_mask:
            return text
        hidden = self._masks.hidden("text", self.written.text)
        hidden += self._masks.hidden("reasoning", self.reasoning.text)
        for part, replacement in hidden:
            text = text.replace(part, replacement)
        for requirement in self._settings.requirements:
            if isinstance(requirement, Masking) and requirement.enforce:
                text = requirement.hidden(text)
        return text

    def _hidden(self, result: Any) -> Any:
        """Return a result, or a failure, without what is masked in its reason."""
        if result is None or result.reason is None or not self._may_mask:
            return result
        return replace(result, reason=self.hide(result.reason))

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

    def _read_and_emit(self, delta: object) -> Any:
        content = self.reader.read(delta)
        if content is not None:
            self._emit_token(content)
        return content

    def _emit_token(self, item: str | Delta) -> None:
        if isinstance(item, str):
            self._emit(TokenEvent, text=item)
        elif isinstance(item, Delta):  # and no sound, which has no tokens
            call = item.tool_call
            if item.reasoning:
                self._emit(TokenEvent, text=mended(item.reasoning), channel="reasoning")
            if isinstance(item.text, str) and item.text:
                self._emit(TokenEvent, text=item.text)
            if call is not None:
                call = replace(call, arguments=mended(call.arguments))
                said = f"{mended(call.name or '')}{call.arguments}"
                self._emit(TokenEvent, text=said, channel="tool", tool_call=call)

    def _new_chunker(self) -> ChannelChunker:
        chunking = self._settings.chunking
        text = start_chunker(chunking)
        if self.request.prefix and isinstance(text, Resumable):
            text.resume(self.request.prefix)
        return ChannelChunker(
            recorded(text, self.written, self.reader.flush),
            self._start_reasoning,
            [tool.name for tool in self._settings.tools],
            may_go_on=waits(text),
        )

    def _start_reasoning(self) -> RecordedChunker:
        chunker = start_chunker(chunking_on("reasoning", self._settings.chunking))
        return recorded(chunker, self.reasoning, lambda: "")

    def _start_release(self, emit: Callable[[Chunk], None]) -> Callable[[Check], None]:
        """Start what looks at each check, and releases chunks as the operator `release` does.

        One operator in place of three: each costs a run a twentieth of its time and memory.
        """
        take, checkpoints = ReleaseOrder().check, self._checkpoints
        notes = checkpoints is not None or self._may_mask

        def on_check(check: Check) -> None:
            self._on_check(check)
            for released in take(check):
                if notes:
                    self._on_released(released)
                if checkpoints is not None:  # a repair may continue from here
                    checkpoints.released(released)
                emit(released)

        return on_check

    def _on_released(self, chunk: Chunk) -> None:
        if chunk.channel == "text":
            self.written.release(chunk)
        elif chunk.channel == "reasoning":
            self.reasoning.release(chunk)

    def _on_closed(self, error: BaseException | None) -> None:
        self.closed_at, self.broken = time.time(), error

    def _on_start(self, clones: Clones) -> None:
        self._clones = clones

    def _emit_verdict(self, verdict: Verdict) -> None:
        if verdict.seconds is None or verdict.requirement is None:  # of a lane that is never asked
            return
        self._emit(
            VerdictEvent,
            chunk_index=verdict.chunk.index,
            lane=verdict.lane,
            requirement=verdict.requirement.name,
            verdict=verdict.result.success,
            reason=self.hide(verdict.result.reason),
            seconds=verdict.seconds,
            channel=verdict.chunk.channel,
            observed=not verdict.requirement.enforce,
        )

    def _on_check(self, check: Check) -> None:
        """Emit the check of a chunk, or of the whole output, and note which requirements failed it."""
        self.written.compact()
        chunk = check.chunk
        if check.masks and chunk is not None:
            self._masks.add(chunk.channel, check.masks)
        if self._may_mask:
            check = check._replace(
                failures=tuple(map(self._hidden, check.failures)),
                results=tuple(map(self._hidden, check.results)),
            )
        self.failures = check.failures
        if chunk is None:
            self._on_final(check)
            return
        emitter = self._emitter
        if check.results and emitter is not None and emitter.wanted(QuickCheckEvent):
            emitter.emit(
                QuickCheckEvent,
                self.request.attempt,
                chunk_index=chunk.index,
                passed=check.success != "fail",
                verdict=check.success,
                results=check.results,
                channel=chunk.channel,
            )
        if check.success == "fail":
            self.failed_on = chunk.channel
            # A failed tail has no text: there is no chunk to write again, so a repair restarts.
            self.may_continue = bool(chunk.text) and all(
                (clone := self._clones[chunk.channel][failure.lane or 0]) is None or clone.resumable
                for failure in self.failures
            )
        elif type(chunk) is ToolChunk and chunk.whole is not None:
            self.calls.append(self._masks.over_call(chunk.whole))

    async def _judge_whole(self, clones: Clones, judge: Backend, ctx: Context) -> Check:
        self.ended_naturally = True
        known = self.reader.known
        self._emit(
            StreamingDoneEvent,
            full_text=self._delivered.full_text(self.written.text),
            finish_reason=known.finish_reason,
        )
        written: dict[Channel, Any] = {
            "text": self._masks.over("text", self.written.text),
            "reasoning": self._masks.over("reasoning", self.reasoning.text),
            "tool": "".join(map(as_read_by_rules, self.calls)),
        }
        check = await final_check(clones, judge, ctx, written, known)
        wrong = [
            Failure(call.name, why, channel="tool")
            for call in self.calls
            if (why := self._settings.complaint(call))
        ]
        return (
            check._replace(success="fail", failures=(*check.failures, *wrong)) if wrong else check
        )

    def _on_final(self, check: Check) -> None:
        results = tuple(one for one in check.results if isinstance(one, ValidationResult))
        if results:  # none of a refusal, which was not judged
            self.validations = results
            self._emit(FullValidationEvent, passed=not check.failures, results=results)


def on_text(
    *operators: Callable[[Observable[str]], Observable[str]],
) -> Callable[[Observable[Any]], Observable[Any]]:
    """Return an operator that pipes the text of a stream through operators, and passes the other channels by."""

    def operator(source: Observable[Any]) -> Observable[Any]:
        def subscribe(
            observer: ObserverBase[Any], scheduler: SchedulerBase | None = None
        ) -> DisposableBase:
            texts: Subject[str] = Subject()
            through: Observable[Any] = OnLoop(
                lambda inner, scheduler: texts.subscribe(inner, scheduler=scheduler)
            )
            behind = through.pipe(*operators).subscribe(observer, scheduler=scheduler)

            def on_next(item: Any) -> None:
                if not isinstance(item, Delta):
                    texts.on_next(item)
                    return
                if item.reasoning:
                    observer.on_next(Delta(reasoning=item.reasoning))
                if item.text:
                    texts.on_next(item.text)
                if item.tool_call is not None:
                    observer.on_next(Delta(tool_call=item.tool_call))

            before = source.subscribe(
                on_next, texts.on_error, texts.on_completed, scheduler=scheduler
            )
            return CompositeDisposable(before, behind)

        return OnLoop(subscribe)

    return operator
