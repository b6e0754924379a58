"""The ledger of a run: its attempts, and what became of their tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from streamval.types.results import AttemptResult, StreamResult, Usage

if TYPE_CHECKING:
    from streamval.pipeline.attempt import Attempt
    from streamval.requirements.schema import MatchesSchema


class Ledger:
    """The attempts of one run, in order."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, attempt: Attempt) -> None:
        """An attempt begins."""
        self._entries.append(_Entry(attempt))

    def ended(self, seconds: float) -> None:
        """The last attempt has ended, after so long."""
        self._entries[-1].seconds = seconds

    def keep(self, offset: int) -> None:
        """The next attempt goes on from this offset of the last one's text."""
        self._entries[-1].kept = offset

    def discard(self) -> None:
        """A restart: nothing of the attempts so far stands."""
        for entry in self._entries:
            entry.discarded = True

    def usage(self, *, success: bool) -> Usage:
        """Tokens of all attempts together.

        Args:
            success: Whether the run succeeds: then the tokens of its last attempt all stand.
        """
        usages = [entry.usage(success=success) for entry in self._entries] or [Usage()]
        total = usages[0]
        for usage in usages[1:]:
            total += usage
        return total

    @property
    def schema_judge(self) -> MatchesSchema | None:
        """Who judged the last attempt by a schema, if there is one."""
        return self._entries[-1].attempt.schema_judge if self._entries else None

    @property
    def closed_at(self) -> float | None:
        """When the backend of the last attempt was closed, in Unix seconds."""
        return self._entries[-1].attempt.closed_at if self._entries else None

    def result(self, output: str | bytes, parsed: Any, *, success: bool) -> StreamResult:
        """The result of the run.

        Args:
            output: The text or sound that stands.
            parsed: The instance that it is, if it is one.
            success: Whether the run succeeds.
        """
        last = self._entries[-1].attempt if self._entries else None
        return StreamResult(
            success=success,
            parsed=parsed,
            **_as_fields(output),
            attempts=tuple(entry.result(success=success) for entry in self._entries),
            failures=last.failures if last else (),
            validations=last.validations if last else (),
            usage=self.usage(success=success),
            finish_reason=last.known.finish_reason if last else None,
        )


@dataclass(slots=True)
class _Entry:
    """An attempt in the ledger.

    Attributes:
        attempt: The attempt.
        seconds: How long it took, once it is over.
        discarded: Whether a restart has thrown all of it away.
        kept: From which offset of its text the next one goes on.
    """

    attempt: Attempt
    seconds: float = 0.0
    discarded: bool = False
    kept: int = 0

    def usage(self, *, success: bool) -> Usage:
        """Its tokens, and how many of them do not stand in the text."""
        usage = self.attempt.usage
        if success and not self.attempt.failures:
            return usage
        standing = 0 if self.discarded else self.attempt.standing_tokens
        standing = min(standing, usage.completion_tokens)
        discarded = usage.completion_tokens - standing
        return replace(usage, discarded_tokens=discarded, reused_tokens=standing)

    def result(self, *, success: bool) -> AttemptResult:
        attempt = self.attempt
        return AttemptResult(
            **_as_fields(attempt.text),
            failures=attempt.failures,
            validations=attempt.validations,
            usage=self.usage(success=success),
            seconds=self.seconds,
            finish_reason=attempt.known.finish_reason,
            kept=self.kept,
        )


def _as_fields(output: str | bytes) -> dict[str, Any]:
    """The fields of a result for text, or for sound."""
    return {"text": output} if isinstance(output, str) else {"text": "", "audio": output}
