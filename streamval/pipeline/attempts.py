"""The attempts of one run, and the repairs between them.

After a failed attempt there are two ways. Either the next one continues: the delivered chunks stay,
the request has them as its prefix, and the lanes resume from their checkpoint after the last of them.
Or it restarts: then everything is cleared, in this order, because a RetryEvent says how many chunks
still stand: the delivered output, the ledger's standing tokens, the checkpoints.

After a stream that broke off, all that was delivered stands. The next attempt continues in the same way, on the
backend that `Takeover` chooses, and has a budget of its own.

`request` has the only counter of attempts. It is raised before the RetryEvent is emitted, as that
belongs to the attempt that starts. A repair may be the user's, so its own number is not used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from traceback import clear_frames
from typing import Any

from streamval.aio.gate import Gate
from streamval.backends.base import Backend, GenerationRequest
from streamval.backends.secrets import without_secrets
from streamval.bridge import Subscription
from streamval.chunkers.tool import ToolChunk
from streamval.events import (
    BaseEvent,
    ChunkEvent,
    PartialObjectEvent,
    ReasoningEvent,
    RetryEvent,
    ToolCallEvent,
)
from streamval.pipeline.attempt import Attempt
from streamval.pipeline.chunk_operators import ChunkOperators
from streamval.pipeline.delivered import Delivered
from streamval.pipeline.emitter import Emitter
from streamval.pipeline.ledger import Ledger
from streamval.pipeline.repair import Repair, lowered
from streamval.pipeline.settings import Settings
from streamval.pipeline.takeover import Takeover
from streamval.types.audio import AudioChunk
from streamval.types.chunks import Chunk
from streamval.types.messages import ToolCall
from streamval.types.text import mended
from streamval.validation.checkpoints import Checkpoints
from streamval.validation.masking import Masks


@dataclass(frozen=True, slots=True)
class Kept:
    """What the next attempt goes on from.

    Attributes:
        prefix: The text that stands; `None` for a restart.
        index: The index of the next chunk of text.
        reasoning: The reasoning that stands; `None` where the model reasons anew.
        reasoning_index: The index of the next chunk of reasoning.
        tokens: The tokens of both.
    """

    prefix: Any = None
    index: int = 0
    reasoning: str | None = None
    reasoning_index: int = 0
    tokens: int = 0


class Attempts:
    """Generates until an attempt succeeds, and repairs in between.

    Args:
        settings: The settings of the pipeline.
        request: The first request to the backend.
        emitter: Publishes events.
        gate: Paused while a subscriber cannot keep up.

    Attributes:
        request: The request of the current attempt, with its number.
        delivered: The output that stands so far.
        ledger: The attempts so far, and their tokens.
        cancelled: Whether the run was cancelled.
        takeover: Chooses the backends; has the current one.
    """

    def __init__(
        self, settings: Settings, request: GenerationRequest, emitter: Emitter, gate: Gate
    ) -> None:
        self.delivered = Delivered(
            settings.nothing,
            settings.schema,
            rewritten=bool(settings.chunk_operators) or settings.masks,
        )
        self.ledger = Ledger()
        self.cancelled = False
        self._settings = settings
        self.request = self._first_request = replace(request, attempt=1)
        self._emitter = emitter
        self._gate = gate
        self.takeover = Takeover(settings.backends, settings.retry.resume if settings.retry else 0)
        self._thought_stands = False  # and further reasoning is not delivered
        self._calls_again: list[ToolCall] = []  # that were delivered, and may be written again
        self._masks = Masks()
        self._subscription: Subscription | None = None
        self._operators: ChunkOperators | None = None

    def cancel(self) -> None:
        """Stop reading and delivering."""
        self.cancelled = True
        if self._subscription is not None:
            self._subscription.dispose()
            if self._operators is not None:
                self._operators.dispose()

    def _end_attempt(self, error: BaseException | None) -> None:
        if self._subscription is not None and not self._subscription.ended:
            self._subscription.end(error)

    async def run(self) -> bool:
        """Generate until an attempt succeeds or the budget is spent.

        Returns:
            Whether the last attempt succeeded.

        Raises:
            BaseException: Any exception of a backend, chunker, validator or operator.
        """
        chosen = self._settings.chunk_operators
        if not chosen:
            return await self._until_valid()
        operators = ChunkOperators(chosen, self._deliver, self._gate, self._end_attempt)
        try:
            async with operators as self._operators:
                try:
                    success = await self._until_valid()
                except Exception as error:  # they may handle it
                    await operators.finish(error)
                    return False
                if not self.cancelled:
                    await operators.finish()
                return success
        finally:
            self._operators = None  # it refers to this object: a reference cycle

    def begin(self) -> None:
        """Choose the backend of the first attempt."""
        self.takeover.begin(asyncio.get_running_loop().time())
        self._move_from(self._settings.backend)

    async def _until_valid(self) -> bool:
        retry = self._settings.retry
        checkpoints = Checkpoints() if retry is not None and self._may_go_on(retry) else None
        kept = Kept()
        while True:
            attempt = await self._generate(kept, checkpoints)
            if attempt.broken is not None:
                kept = await self._resume(attempt, checkpoints, kept)
                if self.cancelled:
                    return False
                continue
            if not attempt.failures:
                # An operator such as `take` may end the stream before the final validation.
                return attempt.ended_naturally
            if retry is None or self.request.attempt - self.ledger.resumed >= retry.loop_budget:
                return False
            if attempt.refused and not retry.refusals:
                return False
            if checkpoints is not None and attempt.may_continue and self._can_continue(attempt):
                kept = self._keep(attempt, checkpoints, kept.tokens)
            else:
                await self._restart(checkpoints)
                kept = Kept()
            restarts = kept.prefix is None
            self._announce(
                attempt,
                reason="; ".join(str(failure) for failure in attempt.failures),
                mode="restart" if restarts else "ask" if retry.mode == "ask" else "continue",
            )
            if self.cancelled:  # a subscriber has cancelled the run
                return False
            written = attempt.written.text
            request = retry.request(
                self._first_request,
                attempt.request,
                attempt.failures,
                prefix=kept.prefix,
                kept_tokens=kept.tokens,
                text=written if isinstance(written, str) else "",
            )
            number = self.request.attempt
            self.request = replace(request, attempt=number, reasoning_prefix=kept.reasoning)
            if (pause := retry.pause(number)) > 0:
                await asyncio.sleep(pause)

    def _may_go_on(self, retry: Repair) -> bool:
        """Return whether an attempt may go on from where the last one was."""
        backends = self._settings.backends
        return retry.resume > 0 or any(
            retry.continues(supports_prefix=one.supports_prefix) for one in backends
        )

    def _announce(self, attempt: Attempt, *, reason: str, mode: str) -> None:
        """Raise the number of the attempt, and emit its RetryEvent."""
        self.request = replace(self.request, attempt=self.request.attempt + 1)
        self._emitter.emit(
            RetryEvent,
            self.request.attempt,
            reason=reason,
            failures=attempt.failures,
            mode=mode,
            keep_chunks=self.delivered.chunks,
            keep_reasoning=self.delivered.thoughts,
            model=self.takeover.current.model if len(self._settings.backends) > 1 else None,
            closed_at=attempt.closed_at,
        )

    def in_words(self, error: BaseException) -> str:
        """Return the message of an exception, without keys."""
        holds_keys = self.takeover.current.options_hold_keys
        said = mended(without_secrets(str(error), self.request.options if holds_keys else {}))
        last = self.ledger.last
        return said if last is None else last.hide(said) or said

    # A stream that broke off

    async def _resume(
        self, attempt: Attempt, checkpoints: Checkpoints | None, before: Kept
    ) -> Kept:
        """Prepare the attempt that goes on where a stream broke off.

        Raises:
            BaseException: The error that broke it, where nothing may go on.
        """
        error, attempt.broken = attempt.broken, None
        assert error is not None
        try:
            last, delivered = self.takeover.current, self.delivered
            wait = self.takeover.after(
                error,
                asyncio.get_running_loop().time(),
                begun=attempt.has_released,
                delivered=bool(delivered.chunks or delivered.thoughts or delivered.calls),
            )
            continues = self.takeover.current.supports_prefix or self._settings.nothing == ""
            if (
                wait is None
                or checkpoints is None
                or not (continues or not attempt.written.released_to)
            ):
                raise error
            attempt.error = f"{type(error).__name__}: {self.in_words(error)}"
            clear_frames(
                error.__traceback__
            )  # the frames of the source hold the error, and so all of the attempt
        finally:
            del error  # its traceback holds this frame
        kept = self._keep_all(attempt, checkpoints, before.tokens)
        self._announce(attempt, reason=attempt.error, mode="resume")
        self.request = replace(
            self.request,
            prefix=kept.prefix or None,
            reasoning_prefix=kept.reasoning,
            reasoning_ends=bool(kept.prefix),
            options=lowered(attempt.request.options, kept.tokens - before.tokens),
        )
        self._move_from(last)
        if wait:
            await asyncio.sleep(wait)
        return kept

    def _keep_all(self, attempt: Attempt, checkpoints: Checkpoints, tokens: int) -> Kept:
        """Keep all that was delivered of an attempt. What was not released of it is dropped.

        Reasoning that the backend cannot go on from stands where an answer has begun; the model may think again, but
        that is not delivered. Without an answer it is replaced. Calls of tools stand: those that the model
        writes again are not delivered twice.
        """
        written, reasoning = attempt.written, attempt.reasoning
        checkpoints.rewind()
        self._calls_again = list(self.delivered.calls)
        self.ledger.keep(written.released_to, reasoning=bool(reasoning.released_to))
        self._keep_masks(attempt, reasoning=True)
        kept = Kept(
            written.text[: written.released_to],
            written.next_index,
            tokens=tokens + written.released_tokens,
        )
        retry, backend = self._settings.retry, self.takeover.current
        goes_on = backend.continues_reasoning and retry is not None and retry.mode != "ask"
        if goes_on and reasoning.released_to and not self._thought_stands:
            return replace(
                kept,
                reasoning=reasoning.text[: reasoning.released_to],
                reasoning_index=reasoning.next_index,
                tokens=kept.tokens + reasoning.released_tokens,
            )
        checkpoints.forget("reasoning")
        self._masks.clear("reasoning")
        self._thought_stands = bool(kept.prefix) and self.delivered.thoughts > 0
        if not self._thought_stands:
            self.delivered.drop_reasoning()
        return kept

    def _move_from(self, before: Backend) -> None:
        """Give the requests the options of the backend that goes on, in place of those of the one before."""
        backend = self.takeover.current
        if backend is not before:
            self._first_request, self.request = (
                replace(one, options=_moved(one.options, before.options, backend.options))
                for one in (self._first_request, self.request)
            )

    def _can_continue(self, attempt: Attempt) -> bool:
        """Return whether a repair may go on from what stands of an attempt.

        After reasoning that failed, the backend has to continue reasoning; after a call of a tool that failed, there
        has to be text that stands, as no part of a call is kept.
        """
        retry, backend = self._settings.retry, self.takeover.current
        if retry is None or not retry.continues(supports_prefix=backend.supports_prefix):
            return False
        if attempt.failed_on == "reasoning":
            return backend.continues_reasoning and retry.mode != "ask"
        return attempt.failed_on == "text" or attempt.written.released_to > 0

    def _keep(self, attempt: Attempt, checkpoints: Checkpoints, tokens: int) -> Kept:
        """Keep what was released of an attempt: its text; its reasoning, where the backend goes on from that."""
        written, reasoning = attempt.written, attempt.reasoning
        self._thought_stands, self._calls_again = False, []
        keeps = self.takeover.current.continues_reasoning and (
            attempt.failed_on == "reasoning" or bool(reasoning.text)
        )
        self.ledger.keep(written.released_to, reasoning=keeps)
        self._keep_masks(attempt, reasoning=keeps)
        checkpoints.rewind()
        self.delivered.calls.clear()
        kept = Kept(
            written.text[: written.released_to],
            written.next_index,
            tokens=tokens + written.released_tokens,
        )
        if not keeps:
            self.delivered.drop_reasoning()
            checkpoints.forget("reasoning")
            return kept
        return replace(
            kept,
            reasoning=reasoning.text[: reasoning.released_to],
            reasoning_index=reasoning.next_index,
            tokens=kept.tokens + reasoning.released_tokens,
        )

    def _keep_masks(self, attempt: Attempt, *, reasoning: bool) -> None:
        self._masks.keep("text", attempt.written.released_to)
        self._masks.clear("tool", *(() if reasoning else ("reasoning",)))
        if reasoning:
            self._masks.keep("reasoning", attempt.reasoning.released_to)

    async def _restart(self, checkpoints: Checkpoints | None) -> None:
        """Clear everything: no delivered chunk stands."""
        self._thought_stands, self._calls_again = False, []
        if self._operators is not None:
            await self._operators.restart()
        self.delivered.clear()
        self._masks.clear()
        self.ledger.discard()
        if checkpoints is not None:
            checkpoints.reset()

    async def _generate(self, kept: Kept, checkpoints: Checkpoints | None) -> Attempt:
        """Make the next attempt, of the current request, and wait until it has ended."""
        attempt = Attempt(
            self._settings,
            self.takeover.current,
            self.request,
            self._emitter,
            index=kept.index,
            reasoning_index=kept.reasoning_index,
            checkpoints=checkpoints,
            delivered=self.delivered,
            masks=self._masks,
        )
        deliver = self._deliver if self._operators is None else self._put
        loop = asyncio.get_running_loop()
        began = loop.time()
        self.ledger.add(attempt)
        try:
            async with Subscription(attempt.chunks(), deliver, self._gate) as subscription:
                self._subscription = subscription
                if not self.cancelled:  # an operator may deliver at once, and a sink cancel then
                    await subscription.completed()
        except Exception as error:
            if error is not attempt.broken:
                raise
        else:
            attempt.broken = None  # an operator of the user's has handled it
        finally:
            self._subscription = None
            attempt.let_go()
            self.ledger.ended(loop.time() - began)
        attempt.warn_of_shared_state()
        attempt.seal()
        if attempt.has_released or attempt.ended_naturally:
            self.takeover.went_well()
        return attempt

    def _put(self, chunk: Chunk) -> None:
        """Pass a chunk of text to the user's operators; other channels pass them by."""
        if self._operators is None or chunk.channel != "text":
            self._deliver(chunk)
        else:
            self._operators.put(chunk)

    def _deliver(self, chunk: Chunk) -> None:
        """Keep a chunk as output that stands, and emit it."""
        if chunk.channel != "text":
            self._deliver_other(chunk)
            return
        self.delivered.add(chunk)
        if self._emitter.wanted(ChunkEvent):
            self._emit_chunk(ChunkEvent, chunk)
        if self._settings.schema is not None:
            for path, value in self.delivered.values(chunk):
                self._emitter.emit(PartialObjectEvent, self.request.attempt, path=path, value=value)

    def _deliver_other(self, chunk: Chunk) -> None:
        """Deliver a chunk of reasoning, or a call of a tool with the last chunk of it."""
        if chunk.channel == "reasoning":
            if "reasoning" in self._settings.delivered and not self._thought_stands:
                self.delivered.add_reasoning(chunk)
                self._emit_chunk(ReasoningEvent, chunk)
        elif isinstance(chunk, ToolChunk) and chunk.whole is not None:
            call = self._new_call(chunk.whole)
            if call is None or (chunk.masked and self._settings.complaint(call)):
                return
            self.delivered.calls.append(call)
            fields = {name: getattr(call, name) for name in call.__slots__}
            self._emitter.emit(ToolCallEvent, self.request.attempt, **fields)

    def _new_call(self, call: ToolCall) -> ToolCall | None:
        """Return a call to deliver; `None` for one that was delivered before the stream broke off."""
        if not self.ledger.resumed:
            return call
        for known in self._calls_again:
            if (known.name, known.arguments) == (call.name, call.arguments):
                self._calls_again.remove(known)
                return None
        return replace(call, index=len(self.delivered.calls))

    def _emit_chunk(self, event: type[BaseEvent], chunk: Chunk) -> None:
        if isinstance(chunk, AudioChunk):
            content: dict[str, Any] = {"text": "", "separator": "", "audio": chunk.text}
        else:
            content = {"text": chunk.text, "separator": chunk.separator}
            if chunk.masked:
                content["masked"] = True
        self._emitter.emit(
            event,
            self.request.attempt,
            chunk_index=chunk.index,
            start=chunk.start,
            end=chunk.end,
            **content,
        )


def _moved(
    options: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, Any]:
    """Return options with the defaults of another backend.

    Example:
        >>> _moved({"seed": 1, "top_p": 0.5}, {"top_p": 0.5}, {"top_k": 4})
        {'top_k': 4, 'seed': 1}
    """
    given = {name: value for name, value in options.items() if before.get(name) != value}
    return {**after, **given}
