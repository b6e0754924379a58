"""The ledger of a run: its attempts and their tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from streamval.pipeline.attempt import Attempt
from streamval.pipeline.delivered import Delivered
from streamval.requirements.schema import MatchesSchema
from streamval.types.results import AttemptResult, StreamResult, Usage


class Ledger:
    """The attempts of one run, in order."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, attempt: Attempt) -> None:
        """Add an attempt, which begins."""
        self._entries.append(_Entry(attempt))

    def ended(self, seconds: float) -> None:
        """Note the duration of the last attempt, which has ended."""
        self._entries[-1].seconds = seconds

    def keep(self, offset: int, *, reasoning: bool) -> None:
        """Note that the next attempt continues from this offset of the last one's text.

        Args:
            offset: The offset.
            reasoning: Whether its reasoning stands too.
        """
        self._entries[-1].kept, self._entries[-1].kept_reasoning = offset, reasoning

    def discard(self) -> None:
        """Note a restart: no text of the attempts so far stands."""
        for entry in self._entries:
            entry.discarded, entry.kept_reasoning = True, False

    def usage(self, *, success: bool) -> Usage:
        """Return the tokens of all attempts together.

        Args:
            success: Whether the run succeeds: then the tokens of its last attempt all stand.
        """
        usages = [entry.usage(success=success) for entry in self._entries] or [Usage()]
        # Most servers report the tokens of the prompt at the end, so not of an attempt that was cut. The prompts of
        # a run are about the same.
        known = [usage.prompt_tokens for usage in usages if usage.prompt_tokens is not None]
        if known:
            usages = [
                replace(usage, prompt_tokens=known[-1]) if usage.prompt_tokens is None else usage
                for usage in usages
            ]
        total = usages[0]
        for usage in usages[1:]:
            total += usage
        return total

    @property
    def resumed(self) -> int:
        """How many attempts broke off, and were resumed."""
        return sum(entry.attempt.error is not None for entry in self._entries)

    @property
    def last(self) -> Attempt | None:
        """The last attempt, if there is one."""
        return self._entries[-1].attempt if self._entries else None

    @property
    def schema_requirement(self) -> MatchesSchema | None:
        """The clone that judged the last attempt by a schema, if there is one."""
        return self.last.schema_requirement if self.last else None

    @property
    def closed_at(self) -> float | None:
        """When the backend of the last attempt was closed, in Unix seconds."""
        return self.last.closed_at if self.last else None

    def full_text(self, delivered: Delivered, *, success: bool) -> str:
        """Return the delivered text; of a success, with the whitespace that the model wrote behind it."""
        return (
            delivered.full_text(self._entries[-1].attempt.written.text)
            if success
            else delivered.text
        )

    def result(self, delivered: Delivered, parsed: Any, *, success: bool) -> StreamResult:
        """Return the result of the run.

        Args:
            delivered: The output that stands.
            parsed: The output as an instance of the pipeline's `format`, or `None`.
            success: Whether the run succeeds.
        """
        last = self.last
        opaque = last.opaque if last and success else ()
        return StreamResult(
            success=success,
            parsed=parsed,
            full_text=self.full_text(delivered, success=success),
            **_as_fields(delivered.raw),
            reasoning=delivered.reasoning,
            tool_calls=tuple(delivered.calls),
            opaque=tuple(block for block, _ in opaque),
            opaque_places=tuple(place for _, place in opaque),
            attempts=tuple(entry.result(success=success) for entry in self._entries),
            failures=last.failures if last else (),
            validations=last.validations if last else (),
            usage=self.usage(success=success),
            finish_reason=last.reader.known.finish_reason if last else None,
        )


@dataclass(slots=True)
class _Entry:
    """An attempt in the ledger.

    Attributes:
        attempt: The attempt.
        seconds: How long it took, once it is over.
        discarded: Whether a restart has discarded its text.
        kept: The offset in its text from which the next attempt continues.
        kept_reasoning: Whether its reasoning was kept.
    """

    attempt: Attempt
    seconds: float = 0.0
    discarded: bool = False
    kept: int = 0
    kept_reasoning: bool = False

    def usage(self, *, success: bool) -> Usage:
        """Return its tokens, with the number of those that do not stand."""
        usage = self.attempt.reader.usage
        if success and not self.attempt.failures and self.attempt.error is None:
            return usage
        standing = 0 if self.discarded else self.attempt.written.released_tokens
        standing += self.attempt.reasoning.released_tokens if self.kept_reasoning else 0
        standing = min(standing, usage.completion_tokens)
        discarded = usage.completion_tokens - standing
        return replace(usage, discarded_tokens=discarded, reused_tokens=standing)

    def result(self, *, success: bool) -> AttemptResult:
        attempt = self.attempt
        text, reasoning = attempt.shown or (attempt.written.text, attempt.reasoning.text)
        return AttemptResult(
            **_as_fields(text),
            failures=attempt.failures,
            validations=attempt.validations,
            usage=self.usage(success=success),
            seconds=self.seconds,
            finish_reason=attempt.reader.known.finish_reason,
            kept=self.kept,
            reasoning=reasoning,
            tool_calls=tuple(attempt.calls),
            error=attempt.error,
            model=attempt.reader.known.model,
        )


def _as_fields(output: str | bytes) -> dict[str, Any]:
    """Return the fields of a result for text, or for sound."""
    return {"text": output} if isinstance(output, str) else {"text": "", "audio": output}
