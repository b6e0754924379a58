"""Answers rows by a pipeline, at the pace that its provider allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

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
from streamval.events import BaseEvent, CompletedEvent
from streamval.pipeline.pipeline import Pipeline
from streamval.types.results import StreamResult

TRIES = 10
"""How often a row is asked while its provider refuses; after that, the row has an error."""


class Answers(Protocol):
    """Answers rows: in this process, or on other machines."""

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

    def __init__(
        self, pipeline: Pipeline[Any], tell: Callable[[Slowed], object] = lambda _: None
    ) -> None:
        self._pipeline = pipeline
        self._pace = Pace(tell)

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

        def note(event: BaseEvent) -> None:
            nonlocal spent
            if isinstance(event, CompletedEvent):
                spent += token_count(event.usage)

        for _ in range(TRIES):
            if not await self._pace.turn():
                return None
            try:
                async with self._pipeline.start(row.prompt) as run:
                    run.subscribe(note)
                    answered = await run
            except (AuthenticationError, UnknownModelError):
                raise
            except RateLimitError as error:
                answered = error
                self._pace.slow_down(str(error), error.retry_after)
            except ConnectionFailedError as error:
                answered = error
                self._pace.slow_down(str(error))
            except Exception as error:
                return kept(row, error, spent)
            else:
                self._pace.went_well()
                return kept(row, answered, spent)
        return kept(row, answered, spent)
