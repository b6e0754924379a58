"""What a result still tells of its run, as events: so that a result is drawn as a run is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamval.events import (
    ChunkEvent,
    CompletedEvent,
    QuickCheckEvent,
    RetryEvent,
    StartedEvent,
    TokenEvent,
)
from streamval.types.results import PartialValidationResult
from streamval.view.patch import common_length

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamval.events import BaseEvent
    from streamval.types.results import AttemptResult, StreamResult


def events_of(result: StreamResult) -> Iterator[BaseEvent]:
    """The events of a run as far as its result knows them: an attempt is one chunk.

    What an attempt has kept is where its text agrees with what came after it. Times are those at which
    attempts ended, from 0.

    Args:
        result: The result of a run.

    Yields:
        The events, in order.
    """
    names = _names(result)
    head: dict[str, Any] = {"run_id": "result", "attempt": 1, "timestamp": 0.0}
    yield StartedEvent(**head, model="", requirements=names, chunking="")
    after = [*(attempt.text for attempt in result.attempts[1:]), result.text]
    stands, kept = "", 0
    for attempt, following in zip(result.attempts, after, strict=True):
        head["timestamp"] += attempt.seconds
        common = attempt.text[: common_length(attempt.text, following)]
        end = max(len(common), len(stands))
        if end > len(stands):
            text = attempt.text[len(stands) : end]
            yield ChunkEvent(
                **head, text=text, chunk_index=kept, start=len(stands), end=end, separator=""
            )
            kept += 1
        if attempt.text[end:]:
            yield TokenEvent(**head, text=attempt.text[end:])
        if attempt.failures:
            yield _failing(head, attempt, names, kept)
        if head["attempt"] < len(result.attempts):
            continues = bool(common) and len(common) >= len(stands)
            stands, kept = (attempt.text[:end], kept) if continues else ("", 0)
            head["attempt"] += 1
            yield RetryEvent(
                **head,
                reason="; ".join(map(str, attempt.failures)),
                failures=attempt.failures,
                mode="continue" if continues else "restart",
                keep_chunks=kept,
            )
    yield CompletedEvent(
        **head,
        success=result.success,
        full_text=result.text,
        attempts_used=len(result.attempts),
        usage=result.usage,
    )


def _names(result: StreamResult) -> tuple[str, ...]:
    """The requirements that have failed, by their lanes; of the others only the number is known."""
    failures = [failure for attempt in result.attempts for failure in attempt.failures]
    named = {failure.lane: failure.requirement for failure in failures if failure.lane is not None}
    count = max([*(lane + 1 for lane in named), len(result.validations)], default=0)
    return tuple(named.get(lane, f"requirement {lane + 1}") for lane in range(count))


def _failing(
    head: dict[str, Any], attempt: AttemptResult, names: tuple[str, ...], chunk: int
) -> QuickCheckEvent:
    results: list[PartialValidationResult | None] = [None] * len(names)
    for failure in attempt.failures:
        if failure.lane is not None:
            results[failure.lane] = PartialValidationResult("fail", reason=failure.reason)
    return QuickCheckEvent(
        **head, chunk_index=chunk, passed=False, verdict="fail", results=tuple(results)
    )
