"""`Masking`: delivers what another rule forbids as something else, and goes on.

    chunk ─ find spans in the raw text ─ hold what may go on ─ mask ─ the other rule judges what is left

The spans are found in the text as it is written. What a rule finds only in the text as it is read (a word with markup
inside, say), or what cannot be masked (a private key of many lines), fails as it does without masking: so what is delivered
always meets the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from typing import Any, Literal, Self, TypeAlias

from streamval.errors import UsageError
from streamval.requirements.chunk_rule import ChunkAnswer, ChunkRule
from streamval.types.masks import Mask, applied
from streamval.types.results import PASS, UNKNOWN, PartialValidationResult

Span: TypeAlias = "tuple[int, int, str]"
"""Where something begins and ends in a text, and its kind."""

FindSpans: TypeAlias = "Callable[[str, int], Iterable[Span]]"
"""Finds spans in a text that reach behind an offset. Spans may overlap."""

Action: TypeAlias = Literal["fail", "mask"]
"""What a rule does where it finds what it forbids."""

REPLACEMENT = "[{kind}]"

LEFT_OUT = "(left out: it has text that is masked)"


class Masking(ChunkRule):
    """Masks spans of a text. What is delivered is what masking the whole text at once gives, however it is sliced.

    Args:
        strict: Judges what is left.
        find: Finds the spans.
        may_go_on: Returns whether a span may begin at the end of a text, so that the text is held back.
        replacement: What is delivered in place of a span; ``{kind}`` in it is the kind.
        **options: Those of `Requirement`.

    Raises:
        UsageError: If the replacement is what the rule forbids, or `hold` is false.
    """

    judges = str
    judges_all = True
    verbatim = True
    masks = True

    def __init__(
        self,
        strict: ChunkRule,
        find: FindSpans,
        may_go_on: Callable[[str], object],
        replacement: str = REPLACEMENT,
        **options: Any,
    ) -> None:
        if not options.get("hold", True):
            raise UsageError(
                "a rule that masks holds text back until it is certain: leave out hold"
            )
        if not isinstance(replacement, str):
            raise UsageError(f"replacement must be a string, not {replacement!r}")
        options = {"check_only": True, **options, "hold": True}
        options.setdefault("chunking", strict.chunking or "sentence")
        super().__init__(strict.description, **options)
        self._find, self._may_go_on, self._replacement = find, may_go_on, replacement
        self._unused = strict
        self._restart()
        if not _passes(self._unused.check_whole(replacement)):
            raise UsageError(f"the replacement {replacement!r} is itself what the rule forbids")

    def _restart(self) -> None:
        self._strict = copy(self._unused)
        self._held = ""
        self._spans: tuple[Mask, ...] = ()  # in what is held

    def __copy__(self) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, _strict=copy(self._strict))
        return twin

    def check(self, chunk: str) -> PartialValidationResult:
        """Mask a chunk, together with the text that is held back before it."""
        new = len(self._held)
        text = self._held + chunk
        found = [
            Mask(start, end, self._replacement.replace("{kind}", kind))
            for start, end, kind in self._find(text, new)
        ]
        self._spans = (*self._spans, *found)
        masks = [(start - new, end - new, instead) for start, end, instead, _ in found]
        if self._may_go_on(text):
            self._held = text
            return PartialValidationResult("unknown", masks=masks) if masks else UNKNOWN
        verdict = self._settle(text)
        if not masks:
            return verdict
        return PartialValidationResult(verdict.success, reason=verdict.reason, masks=masks)

    def _settle(self, text: str) -> PartialValidationResult:
        """Let the other rule judge what is left of a text that is certain."""
        left = applied(text, self._spans)
        self._held, self._spans = "", ()
        verdict = PASS
        for piece in self._strict.pieces(left):
            verdict = self._strict._verdict(self._strict.check(piece))  # noqa: SLF001  of the same family
            if verdict.success == "fail":
                break
        return verdict

    def check_whole(self, text: str) -> ChunkAnswer:
        """Judge the whole text that is delivered."""
        return copy(self._unused).check_whole(text)

    def judge_string(self, text: str) -> PartialValidationResult:
        """Mask a text that is known as a whole: a string of JSON."""
        twin = copy(self)
        twin._restart()  # noqa: SLF001  a copy of this
        masks: list[tuple[int, int, str]] = []
        at = 0
        for piece in twin.pieces(text):
            verdict = twin.check(piece)
            masks += [(at + start, at + end, instead) for start, end, instead in verdict.masks]
            if verdict.success == "fail":
                return PartialValidationResult("fail", reason=verdict.reason)
            at += len(piece)
        verdict = twin._settle(twin._held)  # noqa: SLF001
        if verdict.success != "fail" and not _passes(
            self.check_whole(applied(text, [Mask(*mask) for mask in masks]))
        ):
            verdict = PartialValidationResult("fail", reason=f"not met: {self.name}")
        if verdict.success == "fail":
            return PartialValidationResult("fail", reason=verdict.reason)
        return PartialValidationResult("pass", masks=masks) if masks else PASS

    def masked(self, text: str) -> str:
        """Return a text with all of its spans masked.

        Raises:
            ValueError: If it has what cannot be masked.

        Example:
            >>> from streamval import forbidden_words
            >>> forbidden_words(["acme"], action="mask").masked("Buy at Acme, or at ACME.")
            'Buy at [word], or at [word].'
        """
        verdict = self.judge_string(text)
        if verdict.success == "fail":
            raise ValueError(verdict.reason)
        return applied(text, [Mask(*mask) for mask in verdict.masks])

    def hidden(self, text: str) -> str:
        """Return a text with its spans masked, or words about it where it has what cannot be masked."""
        try:
            return self.masked(text)
        except ValueError:
            return LEFT_OUT


def check_action(action: object) -> None:
    """Refuse an action that there is not.

    Raises:
        UsageError: If it is neither `"fail"` nor `"mask"`.
    """
    if action not in ("fail", "mask"):
        raise UsageError(f"action must be 'fail' or 'mask', not {action!r}")


def _passes(answer: ChunkAnswer) -> bool:
    return not (isinstance(answer, PartialValidationResult) and answer.success == "fail")
