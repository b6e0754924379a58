"""Answering rows: a pipeline, at the pace that its provider allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from streamval.batch.pace import Pace
from streamval.batch.records import kept
from streamval.errors import (
    AuthenticationError,
    ConnectionFailedError,
    RateLimitError,
    UnknownModelError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamval.batch.pace import Slowed
    from streamval.batch.rows import Row
    from streamval.batch.table import Kept
    from streamval.pipeline.pipeline import Pipeline
    from streamval.types.results import StreamResult

TRIES = 10
"""How often a row is asked while its provider refuses; then it is a row with an error."""


class Answers(Protocol):
    """Who answers a row: here, or on another machine."""

    async def answer(self, row: Row) -> Kept | None:
        """Answer it; `None` where it waited, and has been put back. Several rows are answered at once."""

    def stop(self) -> None:
        """Put back the rows that wait for their provider."""


class Answering:
    """Answers rows by a pipeline, on this event loop.

    A provider that asks for fewer requests, or is not there, makes all rows wait, and the row is asked again.

    Args:
        pipeline: Who answers and judges.
        tell: Called with each slowing down.
    """

    def __init__(
        self, pipeline: Pipeline[Any], tell: Callable[[Slowed], object] = lambda _: None
    ) -> None:
        self._pipeline = pipeline
        self._pace = Pace(tell)

    def stop(self) -> None:
        """Put back the rows that wait for their provider."""
        self._pace.stop()

    async def answer(self, row: Row) -> Kept | None:
        """Answer a row; `None` after `stop`, if it has not begun.

        Raises:
            AuthenticationError: If the key is refused: so it will be for all rows.
            UnknownModelError: If the model is not known.
        """
        answered: StreamResult[Any] | Exception
        for _ in range(TRIES):
            if not await self._pace.turn():
                return None
            try:
                answered = await self._pipeline.run(row.prompt)
            except (AuthenticationError, UnknownModelError):
                raise
            except RateLimitError as error:
                answered = error
                self._pace.slow_down(str(error), error.retry_after)
            except ConnectionFailedError as error:
                answered = error
                self._pace.slow_down(str(error))
            except Exception as error:
                return kept(row, error)
            else:
                self._pace.went_well()
                return kept(row, answered)
        return kept(row, answered)
