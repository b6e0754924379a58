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
from dataclasses import replace
from typing import Any

from streamval.aio.gate import Gate
from streamval.backends.base import GenerationRequest
from streamval.bridge import Subscription
from streamval.events import ChunkEvent, PartialObjectEvent, RetryEvent
from streamval.pipeline.attempt import Attempt
from streamval.pipeline.chunk_operators import ChunkOperators
from streamval.pipeline.delivered import Delivered
from streamval.pipeline.emitter import Emitter
from streamval.pipeline.ledger import Ledger
from streamval.pipeline.settings import Settings
from streamval.types.audio import AudioChunk
from streamval.types.chunks import Chunk
from streamval.validation.checkpoints import Checkpoints


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
        index = kept_tokens = 0
        while True:
            attempt = await self._generate(index, checkpoints)
            if not attempt.failures:
                # An operator such as `take` may end the stream before the final validation.
                return attempt.ended_naturally
            if retry is None or self.request.attempt >= retry.loop_budget:
                return False
            written, prefix = attempt.written, None
            if checkpoints is not None and attempt.may_continue:
                prefix, index = written.text[: written.released_to], written.next_index
                kept_tokens += written.released_tokens
                self.ledger.keep(written.released_to)
                checkpoints.rewind()
            else:
                # A restart: no delivered chunk stands.
                if self._operators is not None:
                    await self._operators.restart()
                index = kept_tokens = 0
                self.delivered.clear()
                self.ledger.discard()
                if checkpoints is not None:
                    checkpoints.reset()
            number = self.request.attempt + 1
            self.request = replace(self.request, attempt=number)
            self._emitter.emit(
                RetryEvent,
                self.request.attempt,
                reason="; ".join(str(failure) for failure in attempt.failures),
                failures=attempt.failures,
                mode="restart" if prefix is None else "ask" if retry.mode == "ask" else "continue",
                keep_chunks=self.delivered.chunks,
                closed_at=attempt.closed_at,
            )
            if self.cancelled:  # a subscriber has cancelled the run
                return False
            request = retry.request(
                self._first_request,
                attempt.request,
                attempt.failures,
                prefix=prefix,
                kept_tokens=kept_tokens,
                text=written.text if isinstance(written.text, str) else "",
            )
            self.request = replace(request, attempt=number)
            if (pause := retry.pause(self.request.attempt)) > 0:
                await asyncio.sleep(pause)

    async def _generate(self, index: int, checkpoints: Checkpoints | None) -> Attempt:
        """Make the next attempt, of the current request, and wait until it has ended."""
        attempt = Attempt(
            self._settings,
            self.request,
            self._emitter,
            index=index,
            checkpoints=checkpoints,
            delivered=self.delivered,
        )
        deliver = self._deliver if self._operators is None else self._operators.put
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

    def _deliver(self, chunk: Chunk) -> None:
        """Keep a chunk as output that stands, and emit it."""
        self.delivered.add(chunk)
        if self._emitter.listening:
            self._emit_chunk(chunk)
        if self._settings.schema is not None:
            for path, value in self.delivered.values(chunk):
                self._emitter.emit(PartialObjectEvent, self.request.attempt, path=path, value=value)

    def _emit_chunk(self, chunk: Chunk) -> None:
        if isinstance(chunk, AudioChunk):
            content: dict[str, Any] = {"text": "", "separator": "", "audio": chunk.text}
        else:
            content = {"text": chunk.text, "separator": chunk.separator}
        self._emitter.emit(
            ChunkEvent,
            self.request.attempt,
            chunk_index=chunk.index,
            start=chunk.start,
            end=chunk.end,
            **content,
        )
