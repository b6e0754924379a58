"""Requirements for words: forbidden and required words, patterns, the language."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, TypeAlias

import regex

from streamval.errors import UsageError, ValidatorError
from streamval.requirements.base import Requirement
from streamval.requirements.chunk_rule import ChunkRule, failed, quoted
from streamval.requirements.masking import REPLACEMENT, Action, Masking, Span, check_action
from streamval.structured.as_read import forms_of, markup_begun, without_unseen
from streamval.types.results import PASS, UNKNOWN, PartialValidationResult
from streamval.types.text import LETTER

ENOUGH = 40
"""Least length of a text whose language is identified: a shorter text may be a name or a quotation."""

CERTAIN = 0.95
"""Probability above which a language counts as certain."""

WINDOW = 2000
"""Characters at the end of the text that are classified."""

EXCLUDED = 1e-4
"""Probability below which a chunk is not in the wanted language.

Similar languages, such as Danish and Norwegian, stay above it. Measured: of 3,979 English sentences
of 40 characters or more (docstrings, descriptions of packages) none falls below it where another
language is `CERTAIN`; each of five foreign sentences is below 1e-7.
"""


Pattern: TypeAlias = "re.Pattern[str] | Any"
"""A pattern of `re` or of `regex`, which can be interrupted."""

PATIENCE = 2.0
"""Seconds that a user's pattern may take for one text. A pattern such as ``(a+)+$`` can take years."""

ROOM = 64
"""Characters of markup that may stand in a phrase."""

_NO_SPACE = "\x1c\x1d\x1e\x1f\x85"
"""White space to Python, at which words are cut, and nothing to a reader."""

_SPACES = re.compile(r"\s{2,}")


class ForbiddenPattern(ChunkRule):
    """Forbids matches of a pattern in a chunk: as it is written, without escapes, and as it is read.

    A match that reaches across chunks is found at the end of the stream, unless the requirement
    has a coarser `chunking` of its own. Every verdict is pass or fail, so `hold` has no effect.
    """

    judges = str
    judges_all = True

    def __init__(self, pattern: Pattern, description: str, **options: Any) -> None:
        super().__init__(description, **options)
        self._pattern = pattern

    def check(self, chunk: str) -> PartialValidationResult:
        """Search the chunk."""
        return self._judge(forms_of(chunk))

    def check_whole(self, text: str) -> PartialValidationResult:
        """Search the whole text, for a match across chunks."""
        return self._judge(forms_of(text))

    def _judge(self, forms: tuple[str, ...]) -> PartialValidationResult:
        for form in forms:
            if found := found_in(self._pattern, form):
                return failed(f"it says {found.group()!r}")
        return PASS


class ForbiddenWords(ForbiddenPattern):
    """Forbids words, and phrases of several words. Fails with the chunk that completes one.

    A chunk whose end may begin a phrase is unknown and so, with `hold` (the default), not delivered
    before the words that settle it.
    """

    verbatim = True
    longer_chunks = True

    def __init__(self, phrases: list[str], **options: Any) -> None:
        names = " or ".join(f'"{phrase}"' for phrase in phrases)
        split = [without_unseen(phrase).split() for phrase in phrases]
        options = {"check_only": True, "chunking": "word", "hold": True, **options}
        super().__init__(_whole_words(split), f"never say {names}", **options)
        self._begun = _begun_in(split)
        self._room = 2 * max(map(len, phrases)) + ROOM
        self._tail = self._last = ""

    def check(self, chunk: str) -> PartialValidationResult:
        """Search the chunk, together with the beginning of a phrase before it."""
        text = self._tail + chunk
        if not self._tail and chunk[:1] in _NO_SPACE:
            text = self._last + chunk
        self._last = chunk
        tag = markup_begun(text)
        # A word may go on behind a tag. What stands in it is judged by itself until it ends.
        forms = forms_of(text if tag is None else chunk)
        verdict = self._judge(forms)
        if verdict.success == "fail":
            return verdict
        if tag is None and not (self._begun and any(map(self._begun.search, forms))):
            self._tail = ""
            return verdict
        text = _SPACES.sub(" ", text)
        room = self._room if tag is None else self._room + len(text) - tag
        if len(text) > room:  # from a whole word on, as half of one may be another word
            text = text[-room:].split(maxsplit=1)[-1]
        self._tail = text
        return UNKNOWN


def forbidden_words(
    words: Iterable[str], *, action: Action = "fail", replacement: str = REPLACEMENT, **options: Any
) -> Requirement:
    """Forbid words and phrases, in any case, as whole words.

    They are never put into a prompt, as naming a word invites it. The text is judged as it is written
    and as it is read: without Markdown, tags, entities, escapes and characters that do not show. An
    underscore is no letter. Nothing of a phrase is delivered, wherever the pipeline cuts.

    Args:
        words: Words and phrases, in any order.
        action: `"fail"`, or `"mask"` to deliver the replacement in their place and go on.
        replacement: What is delivered then; ``{kind}`` is "word".

    Raises:
        UsageError: If there are no words, or a single string is given for them.

    Example:
        >>> forbidden_words(["basically", "in order to"]).description
        'never say "basically" or "in order to"'
    """
    phrases = _phrases("forbidden_words", words)
    check_action(action)
    if action == "fail":
        return ForbiddenWords(phrases, **options)
    split = sorted(
        (without_unseen(phrase).split() for phrase in phrases), key=_length, reverse=True
    )
    whole, begun = _whole_words(split), _begun_in(split)

    def find(text: str, new: int) -> Iterator[Span]:
        begin = max(new - LONGEST_HELD, 0)
        found = whole.search(text, begin)
        while found is not None:
            if found.end() > new:
                yield *found.span(), "word"
            found = whole.search(text, found.start() + 1)  # they may overlap

    return Masking(
        ForbiddenWords(phrases),
        find,
        lambda text: begun is not None and begun.search(text, max(len(text) - LONGEST_HELD, 0)),
        replacement,
        **options,
    )


def _length(words: list[str]) -> int:
    return sum(map(len, words))


def _begun_in(split: list[list[str]]) -> Pattern | None:
    """Return a pattern of the beginnings of phrases at the end of a text."""
    begun = [words[:size] for words in split for size in range(1, len(words))]
    return _whole_words(begun, at_the_end=True) if begun else None


LONGEST_HELD = 4096
"""Characters before a chunk in which a phrase may begin."""


def forbidden_pattern(
    pattern: str,
    description: str | None = None,
    *,
    action: Action = "fail",
    replacement: str = REPLACEMENT,
    **options: Any,
) -> Requirement:
    """Forbid matches of a regular expression.

    Args:
        pattern: A regular expression of Python's `re`, searched for. It may take two seconds for a chunk.
        description: What is required, in words; by default made of the pattern.
        action: `"fail"`, or `"mask"` to deliver the replacement in place of a match and go on. Matches are masked
            within a sentence, or within a chunk of `chunking`; one that reaches further fails.
        replacement: What is delivered then; ``{kind}`` is "match".

    Raises:
        UsageError: If the pattern is not a regular expression.

    Example:
        >>> forbidden_pattern(r"\\d{16}", "no card numbers").description
        'no card numbers'
    """
    compiled, description = _compiled(pattern), description or f"nothing that matches {pattern}"
    check_action(action)
    if action == "fail":
        return ForbiddenPattern(compiled, description, **options)

    def find(text: str, new: int) -> Iterator[Span]:
        for found in matches_of(compiled, text):
            if found.end() > found.start():
                yield *found.span(), "match"

    strict = ForbiddenPattern(compiled, description)
    return Masking(strict, find, lambda _: False, replacement, **options)


class RequiredPattern(ChunkRule):
    """Requires a match of a pattern in each chunk, or somewhere in the output.

    Where the output must match somewhere, chunks are unknown until it does: with ``hold=True``
    nothing is delivered before. Where each chunk must match, every verdict is pass or fail.
    """

    judges = str

    def __init__(self, pattern: Pattern, description: str, *, each: bool, **options: Any) -> None:
        super().__init__(description, **options)
        self._pattern = pattern
        self._each = each
        self._met = False

    def check(self, chunk: str) -> PartialValidationResult:
        """Search the chunk."""
        if found_in(self._pattern, chunk):
            self._met = True
            return PASS
        if self._each:
            return failed(f"{quoted(chunk)} does not match")
        return PASS if self._met else UNKNOWN

    def check_whole(self, text: str) -> PartialValidationResult:
        """Search the whole text."""
        return PASS if found_in(self._pattern, text) else failed("nothing in the output matches")


def required_pattern(
    pattern: str, description: str | None = None, *, each: bool = False, **options: Any
) -> Requirement:
    """Require a match of a regular expression: in the output somewhere, or in each chunk.

    Args:
        pattern: A regular expression of Python's `re`, searched for. It may take two seconds for a chunk.
        description: What is required, in words; by default made of the pattern.
        each: Require a match in every chunk: the first chunk without a match fails the output.

    Raises:
        UsageError: If the pattern is not a regular expression.

    Example:
        >>> required_pattern(r"^- ", "a bullet list", each=True, chunking="line").description
        'a bullet list'
    """
    where = "each chunk matches" if each else "somewhere it matches"
    return RequiredPattern(
        _compiled(pattern), description or f"{where} {pattern}", each=each, **options
    )


class RequiredWords(ChunkRule):
    """Requires all of these words or phrases. Passes with the chunk that completes them.

    Until then chunks are unknown: with ``hold=True`` nothing is delivered before that chunk.
    """

    judges = str

    def __init__(self, phrases: list[str], **options: Any) -> None:
        names = " and ".join(f'"{phrase}"' for phrase in phrases)
        super().__init__(f"say {names}", **options)
        self._wanted = tuple((p, _whole_words([without_unseen(p).split()])) for p in phrases)
        self._missing = self._wanted

    def check(self, chunk: str) -> PartialValidationResult:
        """Search the chunk for the phrases that are still missing."""
        self._missing = tuple(m for m in self._missing if not m[1].search(chunk))
        return UNKNOWN if self._missing else PASS

    def check_whole(self, text: str) -> PartialValidationResult:
        """Search the whole text for all of them."""
        missing = [f'"{phrase}"' for phrase, found in self._wanted if not found.search(text)]
        return failed(f"it never says {' or '.join(missing)}") if missing else PASS


def required_words(words: Iterable[str], **options: Any) -> Requirement:
    """Require all of these words and phrases, in any case, as whole words.

    Args:
        words: Words and phrases, in any order.

    Raises:
        UsageError: If there are no words, or a single string is given for them.

    Example:
        >>> required_words(["Dear", "Yours"]).description
        'say "Dear" and "Yours"'
    """
    return RequiredWords(_phrases("required_words", words), **options)


def _phrases(name: str, words: Iterable[str]) -> list[str]:
    if isinstance(words, str):
        raise UsageError(f"{name} takes a list; write {name}([{words!r}])")
    phrases = [phrase.strip() for phrase in words if phrase.strip()]
    if not phrases:
        raise UsageError(f"{name} needs at least one word")
    return phrases


def _whole_words(phrases: list[list[str]], *, at_the_end: bool = False) -> Pattern:
    """Return a pattern of phrases, each a list of words.

    A word of a script without spaces may stand between any letters.
    """
    edges: dict[tuple[str, str], list[str]] = {}
    for words in phrases:
        before = rf"(?<!{LETTER})" if re.match(LETTER, words[0]) else ""
        behind = rf"(?!{LETTER})" if re.search(rf"{LETTER}\Z", words[-1]) else ""
        behind = r"\s*\Z" if at_the_end else behind
        edges.setdefault((before, behind), []).append(r"\s+".join(map(re.escape, words)))
    pattern = "|".join(
        f"{before}(?:{'|'.join(written)}){behind}" for (before, behind), written in edges.items()
    )
    # `re` does not know that "STRASSE" is "straße".
    if re.search(r"ss|[^\x00-\x7f]", pattern.replace(LETTER, ""), re.IGNORECASE):
        return regex.compile(pattern, regex.IGNORECASE | regex.FULLCASE)
    first = re.escape("".join(sorted({words[0][0] for words in phrases})))
    return re.compile(rf"(?=[{first}])(?:{pattern})", re.IGNORECASE)  # most letters begin none


def _compiled(pattern: str) -> Pattern:
    try:
        compiled: Pattern = regex.compile(pattern)
    except regex.error as error:
        raise UsageError(f"{pattern!r} is not a regular expression: {error}") from None
    return compiled


def found_in(pattern: Pattern, text: str) -> re.Match[str] | None:
    """Return the first match in a text.

    Raises:
        ValidatorError: If a user's pattern takes longer than `PATIENCE`.
    """
    if isinstance(pattern, re.Pattern):  # one of ours, whose cost is linear
        return pattern.search(text)
    try:
        found: re.Match[str] | None = pattern.search(text, timeout=PATIENCE)
    except TimeoutError:
        raise _too_slow(pattern, text) from None
    return found


def matches_of(pattern: Pattern, text: str) -> list[re.Match[str]]:
    """Return all matches in a text.

    Raises:
        ValidatorError: If a user's pattern takes longer than `PATIENCE`.
    """
    try:
        return list(pattern.finditer(text, timeout=PATIENCE))  # type: ignore[call-overload]
    except TimeoutError:
        raise _too_slow(pattern, text) from None


def _too_slow(pattern: Pattern, text: str) -> ValidatorError:
    return ValidatorError(
        f"the pattern {pattern.pattern!r} took more than {PATIENCE:g} seconds for {len(text):,} "
        "characters; write it without nested repetition"
    )


class Language(ChunkRule):
    """Requires one language.

    A chunk is unknown until there is enough text to tell. From then on each chunk brings a verdict
    on all text so far. It fails where another language is certain, of the text or of one chunk that
    is long enough, so that one foreign sentence is found. With ``hold=True`` nothing is delivered
    before the language is certain.

    Needs the extra ``streamval-llm[language]`` (py3langid, 97 languages).
    """

    judges = str

    def __init__(self, code: str, **options: Any) -> None:
        identify = _identifier()
        if code not in identify.labels:
            known = ", ".join(sorted(identify.labels))
            raise UsageError(
                f"language must be a code of ISO 639-1, not {code!r}; known are: {known}"
            )
        super().__init__(f"in the language {code!r}", **options)
        self._code = code
        self._seen = ""

    def check(self, chunk: str) -> PartialValidationResult:
        """Classify all text so far."""
        first = not self._seen
        self._seen = f"{self._seen} {chunk}"[-WINDOW:]
        if len(self._seen) < ENOUGH:
            return UNKNOWN
        if not first and len(chunk) >= ENOUGH and (foreign := self._foreign(chunk)) is not None:
            return foreign
        return self._classified(self._seen)

    def check_whole(self, text: str) -> PartialValidationResult:
        """Classify the whole text. A text without a certain language passes."""
        return self._classified(text[-WINDOW:]) if text.strip() else PASS

    def _classified(self, text: str) -> PartialValidationResult:
        found, probability = _identifier().classify(text)
        if found == self._code:
            return PASS if probability >= CERTAIN else UNKNOWN
        if probability < CERTAIN:
            return UNKNOWN
        return failed(f"it is in the language {str(found)!r}", float(probability))

    def _foreign(self, chunk: str) -> PartialValidationResult | None:
        """Return a failure if a chunk is certainly in another language."""
        ranked = dict(_identifier().rank(chunk[-WINDOW:]))
        found = max(ranked, key=ranked.__getitem__)
        if ranked[found] < CERTAIN or ranked[self._code] > EXCLUDED:
            return None
        return failed(f"a part of it is in the language {str(found)!r}", float(ranked[found]))


def language(code: str, **options: Any) -> Requirement:
    """Require that the output is in one language.

    Args:
        code: Its ISO 639-1 code, such as ``"en"`` or ``"de"``.

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
        raise UsageError(
            "language() needs an extra: pip install 'streamval-llm[language]'"
        ) from None
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
