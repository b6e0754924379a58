"""What may not be said, or must look like something: words, patterns, repetition."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from streamval.chunkers.base import start_chunker
from streamval.errors import UsageError
from streamval.requirements.base import Requirement, simple_validate
from streamval.requirements.function import PASS
from streamval.results import PartialValidationResult, ValidationResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from streamval.backends.base import Backend
    from streamval.context import Context


class ForbiddenPattern(Requirement):
    """Nothing in the output may match a pattern. Fails with the chunk in which it does.

    A match that reaches across chunks is found at the end of the stream, unless the requirement
    has a coarser `chunking` of its own.
    """

    def __init__(self, pattern: re.Pattern[str], description: str, **options: Any) -> None:
        super().__init__(description, simple_validate(self._judge_whole), **options)
        self._pattern = pattern

    async def stream_validate(
        self, chunk: str, *, backend: Backend | None, ctx: Context | None
    ) -> PartialValidationResult:
        """Search the chunk."""
        del backend, ctx
        if found := self._pattern.search(chunk):
            return PartialValidationResult("fail", reason=f"it says {found.group()!r}")
        return PASS

    def _judge_whole(self, text: str) -> bool | tuple[bool, str]:
        found = self._pattern.search(text)
        return (False, f"it says {found.group()!r}") if found else True


def forbidden_words(words: Iterable[str], **options: Any) -> Requirement:
    """None of these words or phrases, in whatever case, as whole words.

    Checked only, never put into a prompt: naming a word invites it.

    Raises:
        UsageError: If there are no words, or a single string is given for them.

    Example:
        >>> forbidden_words(["basically", "in order to"]).description
        'never say "basically" or "in order to"'
    """
    if isinstance(words, str):
        message = f"forbidden_words takes a list; write forbidden_words([{words!r}])"
        raise UsageError(message)
    phrases = [phrase.strip() for phrase in words if phrase.strip()]
    if not phrases:
        message = "forbidden_words needs at least one word"
        raise UsageError(message)
    alternatives = "|".join(r"\s+".join(map(re.escape, p.split())) for p in phrases)
    pattern = re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)", re.IGNORECASE)
    names = " or ".join(f'"{phrase}"' for phrase in phrases)
    return ForbiddenPattern(pattern, f"never say {names}", **{"check_only": True, **options})


def forbidden_pattern(pattern: str, description: str | None = None, **options: Any) -> Requirement:
    """Nothing that matches a regular expression (of `re`).

    Raises:
        UsageError: If it is none.

    Example:
        >>> forbidden_pattern(r"\\d{16}", "no card numbers").description
        'no card numbers'
    """
    return ForbiddenPattern(
        _compiled(pattern), description or f"nothing that matches {pattern}", **options
    )


class RequiredPattern(Requirement):
    """Every chunk, or the output somewhere, must match a pattern."""

    def __init__(
        self, pattern: re.Pattern[str], description: str, *, each: bool, **options: Any
    ) -> None:
        super().__init__(description, simple_validate(self._judge_whole), **options)
        self._pattern = pattern
        self._each = each
        self._met = False

    async def stream_validate(
        self, chunk: str, *, backend: Backend | None, ctx: Context | None
    ) -> PartialValidationResult:
        """Match the chunk; once the output matches somewhere, all is well."""
        del backend, ctx
        if self._pattern.search(chunk):
            self._met = True
            return PASS
        if self._each:
            return PartialValidationResult("fail", reason=f"{_short(chunk)} does not match")
        return PASS if self._met else PartialValidationResult("unknown")

    def _judge_whole(self, text: str) -> bool | tuple[bool, str]:
        return True if self._pattern.search(text) else (False, "nothing in the output matches")


def required_pattern(
    pattern: str, description: str | None = None, *, each: bool = False, **options: Any
) -> Requirement:
    """Something must match a regular expression: the output somewhere, or each chunk.

    Args:
        pattern: A regular expression of `re`, searched for.
        description: What is required, in words.
        each: Every chunk must match, so that the first one that does not fails the output.
        **options: As for `Requirement`.

    Raises:
        UsageError: If the pattern is no regular expression.

    Example:
        >>> required_pattern(r"^- ", "a bullet list", each=True, chunking="line").description
        'a bullet list'
    """
    where = "each chunk matches" if each else "somewhere it matches"
    return RequiredPattern(
        _compiled(pattern), description or f"{where} {pattern}", each=each, **options
    )


class NoRepetition(Requirement):
    """No chunk may say what one before it said, but for case, spacing and punctuation.

    Small models fall into loops; this stops one at its first turn.

    Args:
        min_words: Shorter chunks ("Yes.") may come again.
        remember: How many chunks back to compare with.
        **options: As for `Requirement`.

    Example:
        >>> NoRepetition().description
        'never say the same thing twice'
    """

    def __init__(self, *, min_words: int = 3, remember: int = 256, **options: Any) -> None:
        super().__init__("never say the same thing twice", **options)
        self._min_words = min_words
        self._remember = remember
        self._seen: tuple[int, ...] = ()

    async def stream_validate(
        self, chunk: str, *, backend: Backend | None, ctx: Context | None
    ) -> PartialValidationResult:
        """Compare the chunk with those before it."""
        del backend, ctx
        words = re.findall(r"\w+", chunk.casefold())
        if len(words) < self._min_words:
            return PASS
        key = hash(tuple(words))
        if key in self._seen:
            return PartialValidationResult("fail", reason=f"it says {_short(chunk)} again")
        # A new tuple, as copies of this requirement share the old one.
        self._seen = (*self._seen, key)[-self._remember :]
        return PASS

    async def validate(
        self,
        backend: Backend | None,
        ctx: Context,
        *,
        format: type[Any] | None = None,  # noqa: A002  the reference's name
        model_options: Mapping[str, Any] | None = None,
    ) -> ValidationResult:
        """True where the chunks have been compared; otherwise compares the output's sentences."""
        del format, model_options
        if self._seen:
            return ValidationResult(True)
        chunker = start_chunker(self.chunking or "sentence")
        for chunk in [*chunker.feed(str(ctx.last_output() or "")), *chunker.flush()]:
            result = await self.stream_validate(chunk.text, backend=backend, ctx=ctx)
            if result.success == "fail":
                return ValidationResult(False, reason=result.reason)
        return ValidationResult(True)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        message = f"{pattern!r} is not a regular expression: {error}"
        raise UsageError(message) from None


def _short(text: str, limit: int = 60) -> str:
    return repr(text if len(text) <= limit else f"{text[: limit - 1]}…")
