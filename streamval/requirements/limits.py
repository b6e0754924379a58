"""Limits on how much may be said: words, sentences, characters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamval.chunkers.chunking import start_chunker
from streamval.errors import UsageError
from streamval.requirements.base import Requirement, simple_validate
from streamval.requirements.function import PASS, UNKNOWN
from streamval.types.results import PartialValidationResult, ValidationResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamval.backends.base import Backend
    from streamval.types.context import Context


class Limit(Requirement):
    """At least and at most so many of something.

    Fails with the chunk that goes over the upper limit; passes early where there is only a lower
    one and it is reached. A lower limit not reached is found at the end.

    Under an upper limit every chunk is unknown, as the next may go over: with ``hold=True`` nothing
    is delivered before the end. With a lower limit alone, nothing before it is reached.
    """

    judges = str

    def __init__(
        self,
        what: str,
        count: Callable[[str], int],
        at_least: int | None,
        at_most: int | None,
        **options: Any,
    ) -> None:
        if at_least is None and at_most is None:
            message = f"say how many {what}: at_least=, at_most= or both"
            raise UsageError(message)
        if min(at_least or 0, at_most or 0) < 0 or (at_least or 0) > (at_most or at_least or 0):
            message = f"no output has at least {at_least} and at most {at_most} {what}"
            raise UsageError(message)
        bounds = [
            f"{word} {bound}"
            for word, bound in (("at least", at_least), ("at most", at_most))
            if bound is not None
        ]
        super().__init__(
            f"{' and '.join(bounds)} {what}", simple_validate(self._judge_whole), **options
        )
        self._what = what
        self._count = count
        self._at_least = at_least or 0
        self._at_most = at_most
        self._seen = 0

    def stream_validate(
        self, chunk: str, *, backend: Backend | None, ctx: Context | None
    ) -> PartialValidationResult:
        """Count on."""
        del backend, ctx
        self._seen += self._count(chunk)
        if self._at_most is not None:
            if self._seen > self._at_most:
                reason = f"{self._seen} {self._what}, where {self._at_most} are allowed"
                return PartialValidationResult("fail", reason=reason)
            return UNKNOWN
        return PASS if self._seen >= self._at_least else UNKNOWN

    def _judge_whole(self, text: str) -> bool | tuple[bool, str]:
        count = self._count(text)
        if count < self._at_least:
            return False, f"only {count} {self._what}, where {self._at_least} are needed"
        if self._at_most is not None and count > self._at_most:
            return False, f"{count} {self._what}, where {self._at_most} are allowed"
        return True


def word_limit(
    *, at_least: int | None = None, at_most: int | None = None, **options: Any
) -> Requirement:
    """At least and at most so many words (runs of characters without whitespace).

    Counts the words of each chunk, so the chunks must not cut through words: with a pipeline
    chunking of `None`, give it ``chunking="word"``.

    Args:
        at_least: Words at least. One that is not reached is found at the end.
        at_most: Words at most. The chunk that goes over fails.
        **options: As for `Requirement`.

    Returns:
        The requirement.

    Raises:
        UsageError: If there is neither bound, or no output could be within both.

    Example:
        >>> word_limit(at_most=100).description
        'at most 100 words'
    """
    return Limit("words", lambda text: len(text.split()), at_least, at_most, **options)


def sentence_limit(
    *, at_least: int | None = None, at_most: int | None = None, **options: Any
) -> Requirement:
    """At least and at most so many sentences, as `SentenceChunker` finds them.

    Counts the sentences of each chunk, so the chunks must not cut through sentences: with a pipeline
    chunking of ``"word"`` or `None`, give it ``chunking="sentence"``.

    Args:
        at_least: Sentences at least. One that is not reached is found at the end.
        at_most: Sentences at most. The chunk that goes over fails.
        **options: As for `Requirement`.

    Returns:
        The requirement.

    Raises:
        UsageError: If there is neither bound, or no output could be within both.

    Example:
        >>> sentence_limit(at_least=2, at_most=4).description
        'at least 2 and at most 4 sentences'
    """
    return Limit("sentences", count_sentences, at_least, at_most, **options)


def char_limit(
    *, at_least: int | None = None, at_most: int | None = None, **options: Any
) -> Requirement:
    """At least and at most so many characters, the whitespace between chunks not counted.

    Args:
        at_least: Characters at least. One that is not reached is found at the end.
        at_most: Characters at most. The chunk that goes over fails.
        **options: As for `Requirement`.

    Returns:
        The requirement.

    Raises:
        UsageError: If there is neither bound, or no output could be within both.

    Example:
        >>> char_limit(at_most=280).description
        'at most 280 characters'
    """
    return Limit(
        "characters", lambda text: len("".join(text.split())), at_least, at_most, **options
    )


def finished(**options: Any) -> Requirement:
    """The model has come to its end by itself: it was not cut off by a limit on tokens.

    Judged at the end, by the backend's finish reason. It passes where the backend has none to give.

    Args:
        **options: As for `Requirement`.

    Returns:
        The requirement.

    Example:
        >>> finished().description
        'the model comes to its end'
    """
    return Requirement("the model comes to its end", _judge_finish, **options)


def _judge_finish(ctx: Context) -> ValidationResult:
    output = ctx.last_output()
    cut = output is not None and output.generation.finish_reason in ("length", "max_tokens")
    return ValidationResult(not cut, reason="cut off by the limit on tokens" if cut else None)


def count_sentences(text: str) -> int:
    """How many sentences a text has.

    Example:
        >>> count_sentences("Dr. Brown left. Nobody saw it.")
        2
    """
    chunker = start_chunker("sentence")
    return len(chunker.feed(text)) + len(chunker.flush())
