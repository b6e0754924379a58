"""The books of a run: its attempts, and what became of their tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from streamval.results import AttemptResult, StreamResult, Usage

if TYPE_CHECKING:
    from streamval.attempt import Attempt


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

    def discard(self) -> None:
        """A restart: nothing of the attempts so far stands."""
        for entry in self._entries:
            entry.discarded = True

    def usage(self, *, success: bool) -> Usage:
        """Tokens of all attempts together, given whether the run succeeds."""
        usages = [entry.usage(success=success) for entry in self._entries] or [Usage()]
        total = usages[0]
        for usage in usages[1:]:
            total += usage
        return total

    def result(self, output: str | bytes, parsed: Any, *, success: bool) -> StreamResult:
        """How the run went, given what stands, and what that is an instance of."""
        last = self._entries[-1].attempt if self._entries else None
        return StreamResult(
            success=success,
            parsed=parsed,
            **_as_fields(output),
            attempts=tuple(entry.result(success=success) for entry in self._entries),
            failures=last.failures if last else (),
            validations=last.validations if last else (),
            usage=self.usage(success=success),
        )


@dataclass(slots=True)
class _Entry:
    """An attempt in the books of a run.

    Attributes:
        attempt: The attempt.
        seconds: How long it took, once it is over.
        discarded: Whether a restart has thrown all of it away.
    """

    attempt: Attempt
    seconds: float = 0.0
    discarded: bool = False

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
        )


def _as_fields(output: str | bytes) -> dict[str, Any]:
    """What a result says of text, or of sound."""
    return {"text": output} if isinstance(output, str) else {"text": "", "audio": output}
