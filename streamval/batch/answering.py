"""Answers rows by a pipeline, at the pace that its provider allows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Protocol

from streamval.backends.base import Backend, GenerationRequest
from streamval.batch.pace import Pace, Slowed
from streamval.batch.records import kept, token_count
from streamval.batch.rows import InputRow
from streamval.batch.table import Kept
from streamval.errors import (
    AuthenticationError,
    ConnectionFailedError,
    RateLimitError,
    UnknownModelError,
)
from streamval.events import CompletedEvent
from streamval.pipeline.pipeline import Pipeline
from streamval.types.deltas import Delta
from streamval.types.results import StreamResult

TRIES = 10
"""How often a row is asked while its provider refuses; after that, the row has an error."""


BEAT = 10.0
"""Seconds between signs of life of a repair that waits."""


class Answers(Protocol):
    """Answers rows: in this process, or on other machines.

    Attributes:
        ahead: How many rows it may be given beside those under way. They wait where they are answered, so that one
            begins as soon as another ends.
    """

    ahead: int

    async def answer(self, row: InputRow) -> Kept | None:
        """Answer a row; return `None` if it was put back while it waited. Calls may run concurrently."""

    def stop(self) -> None:
        """Put back the rows that wait for their provider."""


class Answering:
    """Answers rows by a pipeline, on this event loop.

    If the provider asks for fewer requests or does not answer, all rows wait, and the row is asked again.

    Args:
        pipeline: Who answers and judges.
        tell: Called with a `Slowed` each time the rate is lowered.
    """

    ahead = 0

    def __init__(
        self, pipeline: Pipeline[Any], tell: Callable[[Slowed], object] = lambda _: None
    ) -> None:
        self._pace = Pace(tell)
        self._beginning = asyncio.Lock()
        self._pipeline = pipeline.with_backend(
            [_Patient(backend, self._pace) for backend in pipeline.backends]
        )

    def stop(self) -> None:
        """Put back the rows that wait for their provider."""
        self._pace.stop()

    async def answer(self, row: InputRow) -> Kept | None:
        """Answer a row; `None` after `stop`, if it has not begun.

        Raises:
            AuthenticationError: If the key is refused, which affects all rows.
            UnknownModelError: If the model is not known.
        """
        answered: StreamResult[Any] | Exception
        spent = 0

        def note(event: CompletedEvent) -> None:
            nonlocal spent
            spent += token_count(event.usage)

        # One row begins in a turn of the loop: else those that wake together go through each step together,
        # end together, and leave the processor idle until they wake again (runs of 50 ms, 64 at once:
        # 1.40 times the ideal without it, 1.07 with it).
        async with self._beginning:
            await asyncio.sleep(0)
        for _ in range(TRIES):
            if not await self._pace.turn():
                return None
            try:
                async with self._pipeline.start(row.prompt) as run:
                    run.subscribe(note, events=(CompletedEvent,))
                    answered = await run
            except (AuthenticationError, UnknownModelError):
                raise
            except (RateLimitError, ConnectionFailedError) as error:
                answered = error
                if spent:  # a repair was refused for good: from the start, all would be paid again
                    break
                self._pace.slow_down(str(error), getattr(error, "retry_after", None))
            except Exception as error:
                return kept(row, error, spent)
            else:
                self._pace.went_well()
                return kept(row, answered, spent)
        return kept(row, answered, spent)


class _Patient(Backend):
    """A backend whose further attempts wait where its provider refuses to start: what was good is not paid again.

    The first attempt is refused as ever: its row has nothing to lose, and may be put back. All rows wait together, so
    a run does not wait on its own: the refusal ends it, or another backend takes over. A stream that breaks off later
    is resumed as in any run.
    """

    def __init__(self, backend: Backend, pace: Pace) -> None:
        self._backend, self._pace = backend, pace
        self.model, self.options = backend.model, backend.options
        self.supports_prefix, self.adapters = backend.supports_prefix, backend.adapters
        self.can_judge, self.reasoning_tags = backend.can_judge, backend.reasoning_tags
        self.options_hold_keys = backend.options_hold_keys

    def __repr__(self) -> str:
        return repr(self._backend)

    def check_options(self, options: Mapping[str, Any]) -> None:
        self._backend.check_options(options)

    def check_request(self, request: GenerationRequest) -> None:
        self._backend.check_request(request)

    def for_judges(self, options: Mapping[str, Any]) -> Backend:
        return self._backend.for_judges(options)

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Delta]:
        for left in reversed(range(TRIES if request.attempt > 1 else 1)):
            begun = False
            try:
                async with aclosing(self._backend.stream(request)) as deltas:  # type: ignore[type-var]
                    async for delta in deltas:
                        begun = True
                        yield delta
            except (RateLimitError, ConnectionFailedError) as error:
                if begun:
                    raise
                if not left:
                    error.may_resume = False
                    raise
                self._pace.slow_down(str(error), getattr(error, "retry_after", None))
            else:
                return
            turn = asyncio.ensure_future(self._pace.turn())
            try:
                while not turn.done():
                    await asyncio.wait([turn], timeout=BEAT)
                    yield Delta()  # it has not stalled
                if not turn.result():
                    raise RateLimitError(
                        "the job was stopped while a repair waited for its provider"
                    )
            finally:
                turn.cancel()
