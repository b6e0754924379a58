"""Requirements against repetition: repeated sentences, and loops."""

from __future__ import annotations

import re
from typing import Any

from streamval.chunkers.word import WordChunker
from streamval.errors import UsageError
from streamval.requirements.base import Requirement
from streamval.requirements.chunk_rule import ChunkRule, failed, quoted
from streamval.types.results import PASS, PartialValidationResult

# A word, a character of a script without spaces, or a sign that changes the meaning.
_WORDS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+|[+*/=<>%×÷−]")


class NoRepetition(ChunkRule):
    """Forbids chunks that repeat an earlier chunk; made by `no_repetition`."""

    judges = str
    whole_chunking = "sentence"

    def __init__(self, *, min_words: int = 3, remember: int = 256, **options: Any) -> None:
        super().__init__("never say the same thing twice", **options)
        self._min_words = min_words
        self._remember = remember
        self._seen: tuple[int, ...] = ()

    @property
    def chunks_decide(self) -> bool:
        """Whether the chunks decide: only if there were some of `min_words`, such as sentences."""
        return super().chunks_decide and bool(self._seen)

    def check(self, chunk: str) -> PartialValidationResult:
        """Compare the chunk with those before it."""
        words = _WORDS.findall(chunk.casefold())
        if len(words) < self._min_words:
            return PASS
        key = hash(tuple(words))
        if key in self._seen:
            return failed(f"it says {quoted(chunk)} again")
        # A new tuple, as copies of this requirement share the old one.
        self._seen = (*self._seen, key)[-self._remember :]
        return PASS


LONG_WORD = 200
"""Characters of a word from which on it may be a loop itself."""


def _words() -> WordChunker:
    """Return a chunker of words, which cuts a word that does not end: a loop may have no spaces."""
    return WordChunker(max_chars=2 * LONG_WORD)


_words.grain = 0  # type: ignore[attr-defined]  # finer than words


class NoLoop(ChunkRule):
    """Forbids loops; made by `no_loop`."""

    judges = str

    def __init__(
        self, *, times: int = 3, min_words: int = 9, max_period: int = 24, **options: Any
    ) -> None:
        if times < 2:
            raise UsageError(f"times must be at least 2, not {times}")
        super().__init__("never go round in circles", **{"chunking": _words, **options})
        self._times = times
        self._min_words = min_words
        self._max_period = max_period
        self._begin()

    def _begin(self) -> None:
        self._words: tuple[str, ...] = ("",) * self._max_period
        # For each period: how many words in a row were the same as the word one period before.
        self._same: tuple[int, ...] = (0,) * self._max_period

    @property
    def chunks_decide(self) -> bool:
        """Whether the chunks decide. Not with a `chunking` of `None`: deltas may cut words."""
        return super().chunks_decide and self.chunking is not None

    def pieces(self, text: str | bytes) -> list[Any]:
        """Return the chunks of a whole output, which are judged from the beginning."""
        self._begin()
        return super().pieces(text)

    def check(self, chunk: str) -> PartialValidationResult:
        """Take the chunk's words one by one."""
        for word in re.findall(r"\w+", chunk.casefold()):
            if len(word) >= LONG_WORD and (turn := _turn_of(word, self._max_period)):
                return failed(f"it says {quoted(turn)} again and again")
            # New tuples, as copies of this requirement share the old ones.
            self._same = tuple(
                count + 1 if word == before else 0
                for count, before in zip(self._same, reversed(self._words), strict=True)
            )
            self._words = (*self._words[1:], word)
            for period, count in enumerate(self._same, 1):
                words = count + period  # `count` does not include the first turn
                if words >= max(self._times * period, self._min_words) and count:
                    turn = " ".join(self._words[-period:])
                    return failed(f"it says {quoted(turn)} again and again")
        return PASS


def _turn_of(word: str, longest: int) -> str:
    """Return what a word repeats from its beginning to its end; empty if it does not."""
    periods = (size for size in range(1, longest + 1) if word[size:] == word[:-size])
    return word[: next(periods, 0)]


def no_repetition(*, min_words: int = 3, remember: int = 256, **options: Any) -> Requirement:
    """Forbid chunks that repeat an earlier chunk. Case, spacing and punctuation are ignored.

    Stops a small model's loop at its first repetition. Every verdict is pass or fail, so
    `hold` has no effect.

    Args:
        min_words: Shorter chunks ("Yes.") may be repeated.
        remember: How many chunks back to compare with.

    Example:
        >>> no_repetition().description
        'never say the same thing twice'
    """
    return NoRepetition(min_words=min_words, remember=remember, **options)


def no_loop(
    *, times: int = 3, min_words: int = 9, max_period: int = 24, **options: Any
) -> Requirement:
    """Forbid loops: the same words again and again without a break, within or across sentences.

    Judges word by word, and letter by letter within a word of 200 letters or more. A requirement sees only what the pipeline's chunks bring it, so a loop that
    never ends its sentence is cut only where the pipeline's `chunking` is ``"word"`` or `None`. Every
    verdict is pass or fail, so `hold` has no effect.

    Args:
        times: The number of turns that make a loop.
        min_words: The fewest words of a loop, all turns together ("no, no, no" is no loop).
        max_period: The longest turn that is looked for, in words.

    Raises:
        UsageError: If `times` is below 2.

    Example:
        >>> no_loop(times=3).description
        'never go round in circles'
    """
    return NoLoop(times=times, min_words=min_words, max_period=max_period, **options)
