"""Reads the reasoning that a model writes between tags in its text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from streamval.errors import UsageError
from streamval.types.deltas import Delta


class TagReader:
    """Takes deltas, and returns them with the text between two tags as reasoning.

    The tags may be split anywhere. White space around them is left out. A block of reasoning may stand at the
    beginning and anywhere in the text; one that never ends is reasoning to its end. A closing tag without an
    opening one ends nothing: it is text, like any other.

    Args:
        opening: The tag before the reasoning; empty where the output begins with reasoning, as the prompt
            ended with that tag.
        closing: The tag behind it.
        within_text: Whether the text goes on after some that was written before.
        after_thought: Whether the reasoning is over, as the answer to it is asked for.
        within_thought: Whether it goes on with reasoning that was written before.

    Example:
        >>> reader = TagReader("<think>", "</think>")
        >>> pieces = [piece for text in ("<thi", "nk>Hm", "m.</", "think>\\n\\nYes.") for piece in reader.feed(text)]
        >>> pieces + list(reader.flush())
        [Delta(reasoning='Hm'), Delta(reasoning='m.'), 'Yes.']
    """

    def __init__(
        self,
        opening: str,
        closing: str,
        *,
        within_text: bool = False,
        after_thought: bool = False,
        within_thought: bool = False,
    ) -> None:
        self._tags = opening, closing
        fresh = not (within_text or after_thought or within_thought)
        self._inside = within_thought or (fresh and not opening)
        self._held = ""
        self._trims = not (
            within_text or within_thought
        )  # whether white space at the beginning is left out

    def feed(self, delta: str | Delta) -> Iterable[str | Delta]:
        """Take a delta; return what is certain."""
        if isinstance(delta, str):
            return self._split(delta)
        if not isinstance(delta, Delta) or not isinstance(delta.text, str):
            return [delta]
        pieces: list[str | Delta] = []
        if delta.reasoning:  # it precedes the text; what was held back precedes both
            pieces += [*self.flush(), Delta(reasoning=delta.reasoning)]
        pieces += self._split(delta.text)
        if delta.tool_call is not None:
            pieces += self.flush()
        more = replace(delta, text="", reasoning="")
        return [*pieces, more] if more != Delta() else pieces

    def flush(self) -> list[str | Delta]:
        """Return the text that might have become a tag."""
        held, self._held = self._held, ""
        return self._piece(held)

    def _split(self, text: str) -> list[str | Delta]:
        pieces: list[str | Delta] = []
        text, self._held = self._held + text, ""
        while text:
            tag = self._tags[self._inside]
            at = text.find(tag) if tag else -1
            if at >= 0:
                pieces += self._piece(text[:at])
                text, self._inside, self._trims = text[at + len(tag) :], not self._inside, True
                continue
            begun = _begun(text, tag)
            pieces += self._piece(text[: len(text) - begun])
            self._held = text[len(text) - begun :]
            break
        return pieces

    def _piece(self, text: str) -> list[str | Delta]:
        if self._trims:
            text = text.lstrip()
        if not text:
            return []
        self._trims = False
        return [Delta(reasoning=text) if self._inside else text]


def _begun(text: str, tag: str) -> int:
    """Return how many characters at the end of a text may begin a tag."""
    for size in range(min(len(tag) - 1, len(text)), 0, -1):
        if text.endswith(tag[:size]):
            return size
    return 0


def check_tags(tags: tuple[str, str] | None) -> tuple[str, str] | None:
    """Return tags, or refuse what is none.

    Raises:
        UsageError: If they are not two strings, of which the second has text.

    Example:
        >>> check_tags(("<think>", "</think>"))
        ('<think>', '</think>')
    """
    if tags is None:
        return None
    match tags:
        case (str(opening), str(closing)) if closing:
            return opening, closing
    raise UsageError(
        f'reasoning_tags must be two strings such as ("<think>", "</think>"), not {tags!r:.100}'
    )
