"""Limits on how much an output may say: words, sentences, characters."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from streamval.chunkers.chunking import start_chunker
from streamval.errors import UsageError
from streamval.requirements.base import Requirement
from streamval.requirements.chunk_rule import ChunkRule, failed
from streamval.types.context import Context
from streamval.types.results import PASS, UNKNOWN, PartialValidationResult, ValidationResult


class Limit(ChunkRule):
    """Limits the number of something.

    Fails with the chunk that exceeds the upper limit. A lower limit that is not reached is found at
    the end. A chunk is unknown while an upper limit may still be exceeded, or a lower one is not
    reached: with ``hold=True`` nothing is delivered before that is settled.
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
            raise UsageError(f"give the number of {what}: at_least=, at_most= or both")
        if min(at_least or 0, at_most or 0) < 0 or (at_least or 0) > (at_most or at_least or 0):
            raise UsageError(f"no output has at least {at_least} and at most {at_most} {what}")
        super().__init__(f"{bounds(at_least, at_most)} {what}", **options)
        self._what = what
        self._count = count
        self._at_least = at_least or 0
        self._at_most = at_most
        self._seen = 0

    def check(self, chunk: str) -> PartialValidationResult:
        """Add the chunk's count to that of the chunks before it."""
        self._seen += self._count(chunk)
        if self._at_most is None:
            return PASS if self._seen >= self._at_least else UNKNOWN
        return UNKNOWN if self._seen <= self._at_most else self._too_many(self._seen)

    def check_whole(self, text: str) -> PartialValidationResult:
        """Count the whole text."""
        count = self._count(text)
        if count < self._at_least:
            return failed(f"only {count} {self._what}, where {self._at_least} are needed")
        if self._at_most is not None and count > self._at_most:
            return self._too_many(count)
        return PASS

    def _too_many(self, count: int) -> PartialValidationResult:
        return failed(f"{count} {self._what}, where {self._at_most} are allowed")


def bounds(at_least: float | None, at_most: float | None) -> str:
    """Return limits in words.

    Example:
        >>> bounds(2, 4), bounds(None, 80)
        ('at least 2 and at most 4', 'at most 80')
    """
    limits = (("at least", at_least), ("at most", at_most))
    return " and ".join(
        f"{word} {bound if isinstance(bound, int) else format(bound, 'g')}"
        for word, bound in limits
        if bound is not None
    )


def word_limit(
    *, at_least: int | None = None, at_most: int | None = None, **options: Any
) -> Requirement:
    """Limit the number of words (runs of characters without whitespace).

    Counts the words of each chunk, so the chunks must not cut through words: with a pipeline
    chunking of `None`, give it ``chunking="word"``.

    Args:
        at_least: The fewest words. Judged at the end.
        at_most: The most words. The chunk that exceeds it fails.

    Raises:
        UsageError: If there is neither limit, or no output could be within both.

    Example:
        >>> word_limit(at_most=100).description
        'at most 100 words'
    """
    return Limit("words", count_words, at_least, at_most, **options)


def sentence_limit(
    *, at_least: int | None = None, at_most: int | None = None, **options: Any
) -> Requirement:
    """Limit the number of sentences, as `SentenceChunker` finds them.

    Counts the sentences of each chunk, so the chunks must not cut through sentences: with a
    pipeline chunking of ``"word"`` or `None`, give it ``chunking="sentence"``.

    Args:
        at_least: The fewest sentences. Judged at the end.
        at_most: The most sentences. The chunk that exceeds it fails.

    Raises:
        UsageError: If there is neither limit, or no output could be within both.

    Example:
        >>> sentence_limit(at_least=2, at_most=4).description
        'at least 2 and at most 4 sentences'
    """
    return Limit("sentences", count_sentences, at_least, at_most, **options)


def char_limit(
    *, at_least: int | None = None, at_most: int | None = None, **options: Any
) -> Requirement:
    """Limit the number of characters, whitespace not counted.

    Args:
        at_least: The fewest characters. Judged at the end.
        at_most: The most characters. The chunk that exceeds it fails.

    Raises:
        UsageError: If there is neither limit, or no output could be within both.

    Example:
        >>> char_limit(at_most=280).description
        'at most 280 characters'
    """
    return Limit(
        "characters", lambda text: len("".join(text.split())), at_least, at_most, **options
    )


def reasoning_limit(at_most_words: int, **options: Any) -> Requirement:
    """Limit the words of reasoning, for a model that thinks too long. The word that exceeds it fails.

    Each character of a script without spaces is a word, and each 50 characters of a longer word are one.

    Args:
        at_most_words: The most words, in all blocks of reasoning of one attempt.

    Raises:
        UsageError: If it is below 0.

    Example:
        >>> reasoning_limit(200).description
        'at most 200 words of reasoning'
    """
    options = {"chunking": "word", "check_only": True, **options}
    return Limit("words of reasoning", _count_thought, None, at_most_words, **options).on(
        "reasoning"
    )


_THOUGHT_WORDS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\s\u3040-\u30ff\u3400-\u9fff]{1,50}")


def _count_thought(text: str) -> int:
    return len(_THOUGHT_WORDS.findall(text))


def finished(**options: Any) -> Requirement:
    """Require that the model ended by itself, and was not cut off by a token limit.

    Judged at the end, by the backend's finish reason. Passes where the backend reports none.

    Example:
        >>> finished().description
        'the model comes to its end'
    """
    return Requirement("the model comes to its end", _check_finish, **options)


def _check_finish(ctx: Context) -> ValidationResult:
    output = ctx.last_output()
    cut = None if output is None else output.generation.cut_off
    return ValidationResult(cut is None, reason=cut)


def count_words(text: str) -> int:
    """Return the number of words: runs of characters without whitespace."""
    return len(text.split())


def count_sentences(text: str) -> int:
    """Count the sentences of a text.

    Example:
        >>> count_sentences("Dr. Brown left. No one saw it.")
        2
    """
    chunker = start_chunker("sentence")
    return len(chunker.feed(text)) + len(chunker.flush())
