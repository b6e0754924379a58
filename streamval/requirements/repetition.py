"""Requirements against repetition: a sentence said before, and loops."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from streamval.chunkers.chunking import start_chunker
from streamval.errors import UsageError
from streamval.requirements.base import Requirement, simple_validate
from streamval.requirements.function import PASS, shortened
from streamval.types.results import PartialValidationResult, ValidationResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streamval.backends.base import Backend
    from streamval.types.context import Context


# A word, a character of a script without spaces, or a sign that makes a difference to what is said.
_WORDS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+|[+*/=<>%×÷−]")


class NoRepetition(Requirement):
    """No chunk may say what one before it said, but for case, spacing and punctuation.

    Small models fall into loops; this stops one at its first turn. Every verdict is pass or fail, so
    `hold` changes nothing.

    Args:
        min_words: Shorter chunks ("Yes.") may come again.
        remember: How many chunks back to compare with.
        **options: As for `Requirement`.

    Example:
        >>> NoRepetition().description
        'never say the same thing twice'
    """

    judges = str

    def __init__(self, *, min_words: int = 3, remember: int = 256, **options: Any) -> None:
        super().__init__("never say the same thing twice", **options)
        self._min_words = min_words
        self._remember = remember
        self._seen: tuple[int, ...] = ()

    def stream_validate(
        self, chunk: str, *, backend: Backend | None, ctx: Context | None
    ) -> PartialValidationResult:
        """Compare the chunk with those before it."""
        del backend, ctx
        words = _WORDS.findall(chunk.casefold())
        if len(words) < self._min_words:
            return PASS
        key = hash(tuple(words))
        if key in self._seen:
            return PartialValidationResult("fail", reason=f"it says {shortened(chunk)} again")
        # A new tuple, as copies of this requirement share the old one.
        self._seen = (*self._seen, key)[-self._remember :]
        return PASS

    async def validate(
        self,
        backend: Backend | None,
        ctx: Context,
        *,
        format: type[Any] | None = None,
        model_options: Mapping[str, Any] | None = None,
    ) -> ValidationResult:
        """True where the chunks have been compared; otherwise compares the output's sentences."""
        del format, model_options
        if self._seen:
            return ValidationResult(True)
        chunker = start_chunker(self.chunking or "sentence")
        for chunk in [*chunker.feed(str(ctx.last_output() or "")), *chunker.flush()]:
            result = self.stream_validate(chunk.text, backend=backend, ctx=ctx)
            if result.success == "fail":
                return ValidationResult(False, reason=result.reason)
        return ValidationResult(True)


class NoLoop(Requirement):
    """The same words may not come again and again without a break, within a sentence or across.

    Looks at each word. A requirement sees what the pipeline's chunks bring it, so a loop that never
    ends its sentence is cut where the pipeline's `chunking` is ``"word"`` or `None`. Each verdict is certain; nothing is ever unknown, so `hold` changes nothing.

    Args:
        times: So many turns make a loop.
        min_words: A loop has at least so many words, all turns together ("no, no, no" is none).
        max_period: The longest turn that is looked for, in words.
        **options: As for `Requirement`.

    Raises:
        UsageError: If `times` is below 2.

    Example:
        >>> NoLoop(times=3).description
        'never go round in circles'
    """

    judges = str

    def __init__(
        self, *, times: int = 3, min_words: int = 9, max_period: int = 24, **options: Any
    ) -> None:
        if times < 2:  # noqa: PLR2004  once is no repetition
            message = f"times must be at least 2, not {times}"
            raise UsageError(message)
        options = {"chunking": "word", **options}
        super().__init__("never go round in circles", simple_validate(self._judge_whole), **options)
        self._times = times
        self._min_words = min_words
        self._words: tuple[str, ...] = ("",) * max_period
        # For each period: how many words in a row were the same as the word one period before.
        self._same: tuple[int, ...] = (0,) * max_period

    def stream_validate(
        self, chunk: str, *, backend: Backend | None, ctx: Context | None
    ) -> PartialValidationResult:
        """Take the chunk's words one by one."""
        del backend, ctx
        turn = self._add(chunk)
        if turn is None:
            return PASS
        return PartialValidationResult("fail", reason=_reason(turn))

    def _add(self, text: str) -> str | None:
        """Take words; returns the turn of a loop that they close."""
        for word in re.findall(r"\w+", text.casefold()):
            # New tuples, as copies of this requirement share the old ones.
            self._same = tuple(
                count + 1 if word == before else 0
                for count, before in zip(self._same, reversed(self._words), strict=True)
            )
            self._words = (*self._words[1:], word)
            for period, count in enumerate(self._same, 1):
                words = count + period  # the first turn has nothing before it to be the same as
                if words >= max(self._times * period, self._min_words) and count:
                    return " ".join(self._words[-period:])
        return None

    def _judge_whole(self, text: str) -> bool | tuple[bool, str]:
        period = len(self._words)
        afresh = NoLoop(times=self._times, min_words=self._min_words, max_period=period)
        turn = afresh._add(text)
        return True if turn is None else (False, _reason(turn))


def _reason(turn: str) -> str:
    return f"it says {shortened(turn)} again and again"
