"""Requirements of words: forbidden or required ones, patterns, and the language they are of."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from streamval.errors import UsageError
from streamval.requirements.base import Requirement, simple_validate
from streamval.requirements.function import PASS, UNKNOWN, shortened
from streamval.types.results import PartialValidationResult

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streamval.backends.base import Backend
    from streamval.types.context import Context

ENOUGH = 40
"""Characters before a verdict: below, a name or a quotation decides."""

CERTAIN = 0.95
"""Probability above which a language is taken for certain."""

WINDOW = 2000
"""Characters, from the end, that are looked at."""

EXCLUDED = 1e-4
"""Probability below which a chunk is not of the wanted language.

Neighbours such as Danish and Norwegian share more than that: of 3,979 English sentences of 40
characters and more, out of docstrings and packages' descriptions, none falls below it where another
language is `CERTAIN`; each of five foreign ones has less than 1e-7.
"""


class ForbiddenPattern(Requirement):
    """Nothing in the output may match a pattern. Fails with the chunk in which it does.

    A match that reaches across chunks is found at the end of the stream, unless the requirement
    has a coarser `chunking` of its own. Every verdict is pass or fail, so `hold` changes nothing.
    """

    judges = str

    def __init__(self, pattern: re.Pattern[str], description: str, **options: Any) -> None:
        super().__init__(description, simple_validate(self._judge_whole), **options)
        self._pattern = pattern

    def stream_validate(
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

    Checked only, never put into a prompt: naming a word invites it. A chunk is judged by itself, so
    the chunks must not cut through words: with a pipeline chunking of `None`, give it
    ``chunking="word"`` (which sees no phrases before the end).

    Args:
        words: Words and phrases, in any order.
        **options: As for `Requirement`.

    Returns:
        The requirement.

    Raises:
        UsageError: If there are no words, or a single string is given for them.

    Example:
        >>> forbidden_words(["basically", "in order to"]).description
        'never say "basically" or "in order to"'
    """
    phrases = _phrases("forbidden_words", words)
    names = " or ".join(f'"{phrase}"' for phrase in phrases)
    options = {"check_only": True, **options}
    return ForbiddenPattern(_whole_words(phrases), f"never say {names}", **options)


def forbidden_pattern(pattern: str, description: str | None = None, **options: Any) -> Requirement:
    """Nothing that matches a regular expression (of `re`).

    Args:
        pattern: In the language of Python's `re`.
        description: What is required, in words; by default made of the pattern.
        **options: As for `Requirement`.

    Returns:
        The requirement.

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
    """Every chunk, or the output somewhere, must match a pattern.

    Where it has to match somewhere, chunks are unknown until it does: with ``hold=True`` nothing is
    delivered before. Where each has to, every verdict is pass or fail.
    """

    judges = str

    def __init__(
        self, pattern: re.Pattern[str], description: str, *, each: bool, **options: Any
    ) -> None:
        super().__init__(description, simple_validate(self._judge_whole), **options)
        self._pattern = pattern
        self._each = each
        self._met = False

    def stream_validate(
        self, chunk: str, *, backend: Backend | None, ctx: Context | None
    ) -> PartialValidationResult:
        """Match the chunk; once the output matches somewhere, all is well."""
        del backend, ctx
        if self._pattern.search(chunk):
            self._met = True
            return PASS
        if self._each:
            return PartialValidationResult("fail", reason=f"{shortened(chunk)} does not match")
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


class RequiredWords(Requirement):
    """Every one of these words or phrases has to come. Passes with the chunk that brings the last.

    Until then it is unknown: with ``hold=True`` nothing is delivered before that chunk.
    """

    judges = str

    def __init__(self, phrases: list[str], **options: Any) -> None:
        names = " and ".join(f'"{phrase}"' for phrase in phrases)
        super().__init__(f"say {names}", simple_validate(self._judge_whole), **options)
        self._missing = tuple((phrase, _whole_words([phrase])) for phrase in phrases)

    def stream_validate(
        self, chunk: str, *, backend: Backend | None, ctx: Context | None
    ) -> PartialValidationResult:
        """Look for those that are still missing."""
        del backend, ctx
        self._missing = tuple(m for m in self._missing if not m[1].search(chunk))
        return PartialValidationResult("unknown") if self._missing else PASS

    def _judge_whole(self, text: str) -> bool | tuple[bool, str]:
        missing = [f'"{phrase}"' for phrase, found in self._missing if not found.search(text)]
        return (False, f"it never says {' or '.join(missing)}") if missing else True


def required_words(words: Iterable[str], **options: Any) -> Requirement:
    """All of these words or phrases, in whatever case, as whole words.

    Args:
        words: Words and phrases, in any order.
        **options: As for `Requirement`.

    Returns:
        The requirement.

    Raises:
        UsageError: If there are no words, or a single string is given for them.

    Example:
        >>> required_words(["Dear", "Yours"]).description
        'say "Dear" and "Yours"'
    """
    return RequiredWords(_phrases("required_words", words), **options)


def _phrases(name: str, words: Iterable[str]) -> list[str]:
    if isinstance(words, str):
        message = f"{name} takes a list; write {name}([{words!r}])"
        raise UsageError(message)
    phrases = [phrase.strip() for phrase in words if phrase.strip()]
    if not phrases:
        message = f"{name} needs at least one word"
        raise UsageError(message)
    return phrases


def _whole_words(phrases: list[str]) -> re.Pattern[str]:
    alternatives = "|".join(r"\s+".join(map(re.escape, p.split())) for p in phrases)
    return re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)", re.IGNORECASE)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        message = f"{pattern!r} is not a regular expression: {error}"
        raise UsageError(message) from None


class Language(Requirement):
    """The output is in one language.

    Unknown until there is enough text to tell; then each chunk brings a verdict on all so far. It
    fails where another language is certain, of the text or of a chunk that is long enough to tell, so
    that one foreign sentence is found. With ``hold=True`` nothing is delivered before the language is
    certain.

    Needs the extra ``streamval-llm[language]`` (py3langid, 97 languages).
    """

    judges = str

    def __init__(self, code: str, **options: Any) -> None:
        identify = _identifier()
        if code not in identify.labels:
            known = ", ".join(sorted(identify.labels))
            message = f"language must be a code of ISO 639-1, not {code!r}; known are: {known}"
            raise UsageError(message)
        super().__init__(f"in the language {code!r}", simple_validate(self._judge_whole), **options)
        self._code = code
        self._seen = ""

    def stream_validate(
        self, chunk: str, *, backend: Backend | None, ctx: Context | None
    ) -> PartialValidationResult:
        """Classify all that has come."""
        del backend, ctx
        first = not self._seen
        self._seen = f"{self._seen} {chunk}"[-WINDOW:]
        if len(self._seen) < ENOUGH:
            return UNKNOWN
        if not first and len(chunk) >= ENOUGH and (fail := self._foreign(chunk)) is not None:
            return fail
        found, probability = _identifier().classify(self._seen)
        if probability < CERTAIN:
            return UNKNOWN
        if found == self._code:
            return PASS
        reason = f"it is in the language {str(found)!r}"
        return PartialValidationResult("fail", reason=reason, score=float(probability))

    def _foreign(self, chunk: str) -> PartialValidationResult | None:
        """A fail, if a chunk is certainly of another language."""
        ranked = dict(_identifier().rank(chunk[-WINDOW:]))
        found = max(ranked, key=ranked.__getitem__)
        if ranked[found] < CERTAIN or ranked[self._code] > EXCLUDED:
            return None
        reason = f"a part of it is in the language {str(found)!r}"
        return PartialValidationResult("fail", reason=reason, score=float(ranked[found]))

    def _judge_whole(self, text: str) -> bool | tuple[bool, str]:
        if not text.strip():
            return True
        found, probability = _identifier().classify(text[-WINDOW:])
        # What is too short or too mixed to be certain of is given the benefit of the doubt.
        if found == self._code or probability < CERTAIN:
            return True
        return False, f"it is in the language {str(found)!r}"


def language(code: str, **options: Any) -> Requirement:
    """The output is in one language, given by its ISO 639-1 code.

    Args:
        code: Such as ``"en"`` or ``"de"``.
        **options: As for `Requirement`.

    Returns:
        The requirement.

    Raises:
        UsageError: If the code is not known, or ``streamval-llm[language]`` is not installed.

    Example:
        >>> language("en").description
        "in the language 'en'"
    """
    return Language(code, **options)


@cache
def _identifier() -> Any:
    try:
        from py3langid.langid import (  # an optional extra, and a second to load
            MODEL_FILE,
            LanguageIdentifier,
        )
    except ImportError:
        message = "language() needs an extra: pip install 'streamval-llm[language]'"
        raise UsageError(message) from None
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
