"""The language of the output."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from streamval.errors import UsageError
from streamval.requirements.base import Requirement, simple_validate
from streamval.requirements.function import PASS, UNKNOWN
from streamval.types.results import PartialValidationResult

if TYPE_CHECKING:
    from streamval.backends.base import Backend
    from streamval.types.context import Context

ENOUGH = 40
"""Characters before a verdict: below, a name or a quotation decides."""

CERTAIN = 0.95
"""Probability above which a language is taken for certain."""

WINDOW = 2000
"""Characters, from the end, that are looked at."""


class Language(Requirement):
    """The output is in one language.

    Unknown until there is enough text to tell; then each chunk brings a verdict on all so far. It
    fails where another language is certain. With ``hold=True`` nothing is delivered before the
    language is certain.

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
        self._seen = f"{self._seen} {chunk}"[-WINDOW:]
        if len(self._seen) < ENOUGH:
            return UNKNOWN
        found, probability = _identifier().classify(self._seen)
        if probability < CERTAIN:
            return UNKNOWN
        if found == self._code:
            return PASS
        reason = f"it is in the language {str(found)!r}"
        return PartialValidationResult("fail", reason=reason, score=float(probability))

    def _judge_whole(self, text: str) -> bool | tuple[bool, str]:
        if not text.strip():
            return True
        found, probability = _identifier().classify(text[-WINDOW:])
        # What is too short or too mixed to be certain of is given the benefit of the doubt.
        passed = found == self._code or probability < CERTAIN
        return bool(passed), f"it is in the language {str(found)!r}"


def language(code: str, **options: Any) -> Requirement:
    """The output is in one language, given by its ISO 639-1 code.

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
