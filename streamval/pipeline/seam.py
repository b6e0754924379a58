"""The seam between kept text and the continuation that a chat model writes when asked in words.

A model that cannot continue a prefix is asked to, in words. Some begin with the right word. Others
repeat the last sentence, or everything, greet, announce a continuation, or begin with an ellipsis.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from reactivex import Observable

from streamval.operators.stateful import stateful

LOOKED_BACK = 2000
"""Characters at the end of the kept text that are searched for a repetition."""

ANNOUNCED = 160
"""Length of the longest announcement."""

_TOKEN = re.compile(r"\w+|[^\w\s]")
_ELLIPSIS = re.compile(r"^(\s*)(?:\.{2,}|…)\s*")
_LEAD = re.compile(r"\s*(?:\.{2,}|…|[\"“'*_`>-])*\s*")
_OPENERS = (
    *("sure", "of course", "certainly", "absolutely", "okay", "ok", "alright", "understood"),
    *("here is", "here's", "here’s", "here goes", "continuing", "continued", "continuation"),
    *("i'll", "i’ll", "i will", "let me", "let's", "let’s", "allow me", "my apologies"),
    *("apologies", "sorry", "hello", "hi", "hey", "got it", "thank you", "thanks"),
)
# An opener alone, or in a sentence about continuing. Anything else is text.
_ANNOUNCEMENT = re.compile(
    rf"""[\s*_"“]* (?:{"|".join(re.escape(opener).replace(" ", " ") for opener in _OPENERS)}) \b
    (?: [^\n.!:]{{0,120}}? \b(?:continu\w*|go(?:ing)?\ on|left\ off|the\ rest|pick(?:ing)?\ up) \b [^\n.!:]{{0,80}} )?
    [*_"”]* (?: [.!:…]+ [*_"”]* (?=\s) | (?=\n) ) \s*
    """,
    re.IGNORECASE | re.VERBOSE,
)
_LAST_WORD = re.compile(r"(?<=[^\w])\w{1,30}$")
_OPENING = re.compile(r"""[(\[{<“‘«/_@#$]$|(?:^|[\s(\[{:,])["'`*]$""")
_AT_MOST = 3
"""The most announcements in a row that are removed."""


class _Token(NamedTuple):
    word: str
    end: int


def _without_announcements(text: str) -> str:
    for _ in range(_AT_MOST):
        announced = _ANNOUNCEMENT.match(text)
        if announced is None:
            break
        text = text[announced.end() :]
    return text


def _may_announce(text: str) -> bool:
    """Return whether more text may turn the text into an announcement."""
    begun = text.lstrip(' \n*_"“').casefold()
    if any(opener.startswith(begun) for opener in _OPENERS):
        return True
    opened = any(begun.startswith(opener) for opener in _OPENERS)
    return (
        opened and len(begun) < ANNOUNCED and not re.search(r"[.!:…][*_\"”]*\s+\S|\n\s*\S", begun)
    )


def _lead(text: str) -> int:
    """Return where words begin, behind an ellipsis or quotation marks."""
    found = _LEAD.match(text)
    return found.end() if found else 0


def _tokens(text: str) -> list[_Token]:
    return [_Token(found[0].casefold(), found.end()) for found in _TOKEN.finditer(text)]


def split_word(kept: str) -> tuple[str, str]:
    """Return a text without its last word, and that word, which may go on.

    Example:
        >>> split_word("The sea is bl"), split_word("The sea is blue.")
        (('The sea is ', 'bl'), ('The sea is blue.', ''))
    """
    found = _LAST_WORD.search(kept)
    at = len(kept) if found is None else found.start()
    return kept[:at], kept[at:]


class Seam:
    """Removes repetitions and announcements from the continuation of a kept text.

    Holds text back only while it may still be a repetition or an announcement. Words are compared,
    in any case and spacing.

    Args:
        kept: The text that stands. Where it may end inside of a word, the model is asked to go on before that word
            (see `split_word`), and writes it again.

    Example:
        >>> seam = Seam("It rains. The sea is blue.")
        >>> [seam.feed(piece) for piece in ["Sure, going on:\\n", "...the sea is ", "blue. It is", " deep."]]
        ['', '', ' It is', ' deep.']
        >>> seam = Seam("The capi")
        >>> [seam.feed(piece) for piece in ["cap", "ital of"]]
        ['', 'tal of']
    """

    def __init__(self, kept: str) -> None:
        whole, self._word = split_word(kept)
        self._kept = [token.word for token in _tokens(whole[-LOOKED_BACK:])]
        self._needs_no_space = kept[-1:].isspace() or bool(_OPENING.search(kept[-2:]))
        self._held: str | None = ""

    def feed(self, text: str) -> str:
        """Take the next piece; return the text that is certain."""
        if self._held is None:
            return text
        self._held += text
        return "" if self._may_change() else self._decide()

    def flush(self) -> str:
        """Return the text that is held back, at the end."""
        return "" if self._held is None else self._decide()

    def _may_change(self) -> bool:
        """Return whether more text may show that the held text is a repetition or an announcement."""
        rest = _without_announcements(self._held or "")
        if rest.endswith("\n") or _may_announce(rest):
            return True
        rest = rest[_lead(rest) :]
        if not rest or self._word.startswith(rest[self._repeated(rest) :].lstrip("\"”'*_` \n")):
            return True
        # The last word may not be whole, and the next one may match as well.
        *whole, last = [token.word for token in _tokens(rest)] or [""]
        for size in range(len(whole) + 1, len(self._kept) + 1):
            tail = self._kept[-size:]
            if tail[: len(whole)] == whole and tail[len(whole)].startswith(last):
                return True
        # Marks that end a repetition may be spread over pieces, as in **these**.
        return not rest.strip("\"”'*_` ") or self._repeated(rest) >= len(rest.rstrip("\"”'*_`"))

    def _repeated(self, text: str) -> int:
        """Return the length of the repetition of the kept text's end: two words at least."""
        tokens = _tokens(text)
        words = [token.word for token in tokens]
        for size in range(min(len(words), len(self._kept)), 1, -1):
            if self._kept[-size:] == words[:size]:
                return tokens[size - 1].end
        return 0

    def _decide(self) -> str:
        held, self._held = _without_announcements(self._held or ""), None
        lead = _lead(held)
        rest = held[lead:]
        if repeated := self._repeated(rest):
            return self._joined(rest[repeated:].lstrip("\"”'*_`"))
        if self._word and rest.startswith(self._word):
            return rest[len(self._word) :]
        return self._joined(_ELLIPSIS.sub(r"\1", held))

    def _joined(self, text: str) -> str:
        """Return the text, with a space before it if the seam needs one, without the word that was begun."""
        if self._word and text.lstrip().startswith(self._word):
            return text.lstrip()[len(self._word) :]
        if not text or self._needs_no_space or text[0].isspace() or text[0] in ",;:.!?)]}”’":
            return text
        return f" {text}"


def skip_blank(kept: str) -> Callable[[Observable[str]], Observable[str]]:
    """Return an operator that leaves out the white space at the end of a kept text where the continuation repeats it.

    Backends get the text without it, as models write a word with the space before it, and some servers refuse it.

    Example:
        >>> import reactivex
        >>> _ = reactivex.of(" ", " two").pipe(skip_blank("One  ")).subscribe(print)
        two
    """

    def start(emit: Callable[[str], None]) -> Any:
        left = kept[len(kept.rstrip()) :]

        def on_next(text: str) -> None:
            nonlocal left
            while left and text:
                left, text = (left[1:], text[1:]) if left[0] == text[0] else ("", text)
            if text:
                emit(text)

        return on_next, lambda: None

    return stateful(start)


def mend_seam(kept: str) -> Callable[[Observable[str]], Observable[str]]:
    """Return an operator that passes deltas through a `Seam`."""

    def start(emit: Callable[[str], None]) -> Any:
        seam = Seam(kept)

        def emit_text(text: str) -> None:
            if text:
                emit(text)

        return lambda text: emit_text(seam.feed(text)), lambda: emit_text(seam.flush())

    return stateful(start)
