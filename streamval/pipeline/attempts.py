"""The attempts of one run: what is kept and what is thrown away between them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from streamval.bridge import Subscription
from streamval.events import ChunkEvent, PartialObjectEvent, RetryEvent
from streamval.pipeline.attempt import Attempt
from streamval.pipeline.delivered import Delivered
from streamval.pipeline.ledger import Ledger
from streamval.types.audio import AudioChunk
from streamval.validation.checkpoints import Checkpoints

if TYPE_CHECKING:
    from reactivex.abc import SchedulerBase

    from streamval.aio.gate import Gate
    from streamval.backends.base import GenerationRequest
    from streamval.pipeline.emitter import Emitter
    from streamval.pipeline.settings import Settings
    from streamval.types.chunks import Chunk


class Attempts:
    """Generates until an attempt succeeds, and repairs in between.

    Args:
        settings: Who speaks, who judges, and what follows a failure.
        request: What the backend is asked first.
        emitter: Publishes events.
        gate: Paused while a subscriber cannot keep up.

    Attributes:
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
        self._first_request = request
        self._emitter = emitter
        self._gate = gate
        self._subscription: Subscription | None = None

    def cancel(self) -> None:
        """Read nothing more, and deliver nothing more."""
        self.cancelled = True
        if self._subscription is not None:
            self._subscription.dispose()

    async def run(self) -> bool:
        """Attempt after attempt, until one succeeds or the budget is spent.

        Returns:
            Whether the last one succeeded.

        Raises:
            BaseException: What a backend, chunker or validator raises.
        """
        retry, backend = self._settings.retry, self._settings.backend
        continues = retry is not None and retry.continues(supports_prefix=backend.supports_prefix)
        checkpoints = Checkpoints() if continues else None
        request, index, kept_tokens = self._first_request, 0, 0
        while True:
            attempt = await self._generate(request, index, checkpoints)
            if not attempt.failures:
                # An operator such as `take` may end the stream before the final validation.
                return attempt.ended_naturally
            if retry is None or self._emitter.attempt >= retry.loop_budget:
                return False
            prefix = None
            index = 0
            if checkpoints is not None and attempt.may_continue:
                prefix, index = attempt.text[: attempt.released_to], attempt.next_index
                kept_tokens += attempt.standing_tokens
                self.ledger.keep(attempt.released_to)
                checkpoints.rewind()
            else:
                # Nothing of what was delivered stands.
                self.delivered.clear()
                self.ledger.discard()
                kept_tokens = 0
                if checkpoints is not None:
                    checkpoints.reset()
            self._emitter.attempt += 1
            self._emitter.emit(
                RetryEvent,
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
                request,
                attempt.failures,
                prefix=prefix,
                kept_tokens=kept_tokens,
                text=attempt.text if isinstance(attempt.text, str) else "",
            )
            if (pause := retry.pause(self._emitter.attempt)) > 0:
                await asyncio.sleep(pause)

    async def _generate(
        self, request: GenerationRequest, index: int, checkpoints: Checkpoints | None
    ) -> Attempt:
        attempt = Attempt(
            self._settings,
            request,
            self._emitter,
            index=index,
            checkpoints=checkpoints,
            delivered=self.delivered,
        )
        loop = asyncio.get_running_loop()
        began = loop.time()
        self.ledger.add(attempt)
        try:
            async with Subscription(
                attempt.chunks(), self._deliver, self._gate, self._scheduler(loop)
            ) as subscription:
                self._subscription = subscription
                if not self.cancelled:  # an operator may deliver at once, and a sink cancel then
                    await subscription.completed()
        finally:
            self._subscription = None
            attempt.ended()
            self.ledger.ended(loop.time() - began)
        attempt.check_shared_state()
        return attempt

    def _scheduler(self, loop: asyncio.AbstractEventLoop) -> SchedulerBase | None:
        """For the user's operators: without one, a timer of reactivex fires on another thread."""
        if not self._settings.has_operators:
            return None
        from reactivex.scheduler.eventloop import AsyncIOScheduler  # only where used

        return AsyncIOScheduler(loop)

    def _deliver(self, chunk: Chunk) -> None:
        """A chunk came through: it stands, and subscribers get it."""
        self.delivered.add(chunk)
        if self._emitter.listening:
            self._emit_chunk(chunk)
        if self._settings.schema is not None:
            for path, value in self.delivered.values(chunk):
                self._emitter.emit(PartialObjectEvent, path=path, value=value)

    def _emit_chunk(self, chunk: Chunk) -> None:
        if isinstance(chunk, AudioChunk):
            said: dict[str, Any] = {"text": "", "separator": "", "audio": chunk.text}
        else:
            said = {"text": chunk.text, "separator": chunk.separator}
        self._emitter.emit(
            ChunkEvent, chunk_index=chunk.index, start=chunk.start, end=chunk.end, **said
        )
