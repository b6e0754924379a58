"""Requirements against leaks: secrets and personal data.

All of them judge words, whatever the pipeline's chunks, so a key that arrives in four pieces is one
word when it is judged. All of them hold by default: text that may turn out to be a leak is kept from
the consumer until the verdict is certain.
"""

from __future__ import annotations

import re
from typing import Any

from streamval.requirements.as_read import forms_of
from streamval.requirements.base import Requirement
from streamval.requirements.chunk_rule import ChunkRule, failed
from streamval.requirements.leak_patterns import (
    UNFINISHED_KEY,
    UNFINISHED_NUMBER,
    Find,
    PersonalData,
    key_finder,
    normalised,
)
from streamval.types.results import PASS, UNKNOWN, PartialValidationResult

WINDOW = 64
"""Words that are judged together: an IBAN with a dash after each letter has that many."""

LONG_WORD = 128
"""Characters at the end of a word that are judged again together with the words after it."""


class NoLeak(ChunkRule):
    """Forbids one kind of data. Judges word by word, together with the words before it.

    A word that may be the beginning of such data is unknown and so, with `hold` (the default), not
    delivered before the word that settles it. Words are judged as they are written, without escapes,
    and as they are read.
    """

    judges = str
    judges_all = True

    def __init__(
        self, description: str, find: Find, unfinished: re.Pattern[str], **options: Any
    ) -> None:
        options = {"check_only": True, "hold": True, "chunking": "word", **options}
        super().__init__(description, **options)
        self._find = find
        self._unfinished = unfinished
        # The last words in each of their forms, as `forms_of` returns them; one, while all are the same.
        self._windows: tuple[tuple[str, ...], ...] = ((),)

    def check(self, chunk: str) -> PartialValidationResult:
        """Judge the last words."""
        forms = tuple(map(normalised, forms_of(chunk)))
        several = max(len(forms), len(self._windows))
        # The last form is that which is read: it stands for those that are left out.
        forms += forms[-1:] * (several - len(forms))
        windows = self._windows + self._windows[-1:] * (several - len(self._windows))
        verdict = PASS
        for form, window in zip(forms, windows, strict=True):
            text = " ".join((*window, form))
            if kind := self._find(text, len(text) - len(form)):
                return failed(f"it contains {kind}")
            if self._unfinished.search(text):
                verdict = UNKNOWN
        # Only the end of a long word is kept, so that cost stays linear.
        made = [
            (*window, form[-LONG_WORD:])[-WINDOW:]
            for form, window in zip(forms, windows, strict=True)
        ]
        self._windows = tuple(dict.fromkeys(made))
        return verdict

    def check_whole(self, text: str) -> PartialValidationResult:
        """Judge the whole text."""
        for form in forms_of(text):
            if kind := self._find(" ".join(normalised(form).split())):
                return failed(f"it contains {kind}")
        return PASS


def no_secrets(**options: Any) -> Requirement:
    """Forbid API keys, tokens and private keys, by the patterns of Kingfisher.

    It recognises some two hundred kinds (OpenAI's, Anthropic's, Google's, GitHub's, AWS's, …) by
    their format, not by the name of a variable. The reason names the kind of secret, never the
    secret. Holds by default.

    Needs the extra ``streamval-llm[privacy]``. The first call takes half a second.

    Raises:
        UsageError: If the extra is not installed.

    Example:
        >>> no_secrets().hold
        True
    """
    return NoLeak("no secrets", key_finder(), UNFINISHED_KEY, **options)


def no_personal_data(region: str | None = None, **options: Any) -> Requirement:
    """Forbid e-mail addresses, telephone numbers, payment card numbers and IBANs.

    Telephone numbers are found by phonenumbers (Google's library), card numbers and IBANs by
    their check digits (ISO/IEC 7812-1, ISO 13616; python-stdnum), however their groups are
    separated and in whatever script their digits are. Names and addresses are not looked for. The
    reason names the kind, never the data. Holds by default.

    Needs the extra ``streamval-llm[privacy]``.

    Args:
        region: Country (ISO 3166-1, two letters) whose numbers are recognised without a prefix
            such as +49 or 0049.

    Raises:
        UsageError: If the extra is not installed, or the region is unknown.

    Example:
        >>> no_personal_data("US").description
        'no personal data'
    """
    return NoLeak("no personal data", PersonalData(region), UNFINISHED_NUMBER, **options)
