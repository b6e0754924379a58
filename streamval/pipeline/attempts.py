"""The attempts of one run, and the repairs between them.

After a failed attempt there are two ways. Either the next one continues: the delivered chunks stay,
the request has them as its prefix, and the lanes resume from their checkpoint after the last of them.
Or it restarts: then everything is cleared, in this order, because a RetryEvent says how many chunks
still stand: the delivered output, the ledger's standing tokens, the checkpoints.

`request` has the only counter of attempts. It is raised before the RetryEvent is emitted, as that
belongs to the attempt that starts. A repair may be the user's, so its own number is not used.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from streamval.aio.gate import Gate
from streamval.backends.base import GenerationRequest
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
from streamval.pipeline.settings import Settings
from streamval.types.audio import AudioChunk
from streamval.types.chunks import Chunk
from streamval.validation.checkpoints import Checkpoints


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
    """

    def __init__(
        self, settings: Settings, request: GenerationRequest, emitter: Emitter, gate: Gate
    ) -> None:
        self.delivered = Delivered(
            settings.nothing, settings.schema, rewritten=bool(settings.chunk_operators)
        )
        self.ledger = Ledger()
        self.cancelled = False
        self._settings = settings
        self.request = self._first_request = replace(request, attempt=1)
        self._emitter = emitter
        self._gate = gate
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

    async def _until_valid(self) -> bool:
        retry, backend = self._settings.retry, self._settings.backend
        continues = retry is not None and retry.continues(supports_prefix=backend.supports_prefix)
        checkpoints = Checkpoints() if continues else None
        kept = Kept()
        while True:
            attempt = await self._generate(kept, checkpoints)
            if not attempt.failures:
                # An operator such as `take` may end the stream before the final validation.
                return attempt.ended_naturally
            if retry is None or self.request.attempt >= retry.loop_budget:
                return False
            if attempt.refused and not retry.refusals:
                return False
            if checkpoints is not None and attempt.may_continue and self._can_continue(attempt):
                kept = self._keep(attempt, checkpoints, kept.tokens)
            else:
                await self._restart(checkpoints)
                kept = Kept()
            number = self.request.attempt + 1
            self.request = replace(self.request, attempt=number)
            restarts = kept.prefix is None
            self._emitter.emit(
                RetryEvent,
                self.request.attempt,
                reason="; ".join(str(failure) for failure in attempt.failures),
                failures=attempt.failures,
                mode="restart" if restarts else "ask" if retry.mode == "ask" else "continue",
                keep_chunks=self.delivered.chunks,
                keep_reasoning=self.delivered.thoughts,
                closed_at=attempt.closed_at,
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
            self.request = replace(request, attempt=number, reasoning_prefix=kept.reasoning)
            if (pause := retry.pause(self.request.attempt)) > 0:
                await asyncio.sleep(pause)

    def _can_continue(self, attempt: Attempt) -> bool:
        """Return whether what stands of an attempt lets the backend go on from there.

        After reasoning that failed, the backend has to continue reasoning; after a call of a tool that failed, there
        has to be text that stands, as no part of a call is kept.
        """
        if attempt.failed_on == "reasoning":
            retry, backend = self._settings.retry, self._settings.backend
            return backend.continues_reasoning and retry is not None and retry.mode != "ask"
        return attempt.failed_on == "text" or attempt.written.released_to > 0

    def _keep(self, attempt: Attempt, checkpoints: Checkpoints, tokens: int) -> Kept:
        """Keep what was released of an attempt: its text; its reasoning, where the backend goes on from that."""
        written, reasoning = attempt.written, attempt.reasoning
        keeps = self._settings.backend.continues_reasoning and (
            attempt.failed_on == "reasoning" or bool(reasoning.text)
        )
        self.ledger.keep(written.released_to, reasoning=keeps)
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

    async def _restart(self, checkpoints: Checkpoints | None) -> None:
        """Clear everything: no delivered chunk stands."""
        if self._operators is not None:
            await self._operators.restart()
        self.delivered.clear()
        self.ledger.discard()
        if checkpoints is not None:
            checkpoints.reset()

    async def _generate(self, kept: Kept, checkpoints: Checkpoints | None) -> Attempt:
        """Make the next attempt, of the current request, and wait until it has ended."""
        attempt = Attempt(
            self._settings,
            self.request,
            self._emitter,
            index=kept.index,
            reasoning_index=kept.reasoning_index,
            checkpoints=checkpoints,
            delivered=self.delivered,
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
        finally:
            self._subscription = None
            attempt.drop_emitter()
            self.ledger.ended(loop.time() - began)
        attempt.warn_of_shared_state()
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
        if self._emitter.listening:
            self._emit_chunk(ChunkEvent, chunk)
        if self._settings.schema is not None:
            for path, value in self.delivered.values(chunk):
                self._emitter.emit(PartialObjectEvent, self.request.attempt, path=path, value=value)

    def _deliver_other(self, chunk: Chunk) -> None:
        """Deliver a chunk of reasoning, or a call of a tool with the last chunk of it."""
        if chunk.channel == "reasoning":
            if "reasoning" in self._settings.delivered:
                self.delivered.add_reasoning(chunk)
                self._emit_chunk(ReasoningEvent, chunk)
        elif isinstance(chunk, ToolChunk) and chunk.whole is not None:
            call = chunk.whole
            self.delivered.calls.append(call)
            fields = {name: getattr(call, name) for name in call.__slots__}
            self._emitter.emit(ToolCallEvent, self.request.attempt, **fields)

    def _emit_chunk(self, event: type[BaseEvent], chunk: Chunk) -> None:
        if isinstance(chunk, AudioChunk):
            content: dict[str, Any] = {"text": "", "separator": "", "audio": chunk.text}
        else:
            content = {"text": chunk.text, "separator": chunk.separator}
        self._emitter.emit(
            event,
            self.request.attempt,
            chunk_index=chunk.index,
            start=chunk.start,
            end=chunk.end,
            **content,
        )
