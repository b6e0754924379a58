"""`SentenceChunker`: a chunk a sentence, decided while the text still arrives.

`sentencex` knows the rules of the languages. Its result for growing text may change, so it
is called only when enough text has arrived: a terminator, the closing marks after it,
whitespace and one complete word (after a full-width terminator, one character). Then its result
is final. Line ends that no sentence crosses are found in this module, as the engine expects prose.
"""

from __future__ import annotations

import re

import sentencex

from streamval.chunkers.base import PendingChunker
from streamval.types.chunks import Chunk
from streamval.types.text import without_halves

CONTEXT = 200
"""Characters before a candidate that are passed to the engine."""

LOOKAHEAD = 80
"""Characters to wait for the end of the next word after a candidate."""

QUOTED = 120
"""Characters for which an unclosed quotation or bracket keeps a sentence from ending."""

LONGEST_MARKER = 16
"""Length of the longest list marker, including the whitespace before it."""

LONGEST_HEADING = 32
"""Length of the longest beginning of a numbered heading."""

PATIENCE = 64
"""Deltas without a possible boundary that may gather before they are processed."""

_CLOSER = r"""["'”“’»›)\]}」』）》〉】]"""
_SPACED = r"[.!?…؟۔।॥։:;]"
_WIDE = r"[。！？｡．፧።၊။]"
_MARKER = r"(?:[•⁃]\s?)?(?:\d{1,3}|[a-z])(?:\.\)|[.)])"
# Text that models write behind a full stop: the end of markup, a citation, an emoji (not a bullet).
_CITATION = r"(?:\[\^?[\w, -]{1,12}\]|[¹²³⁰⁴-⁹])"
_EMOJI = (
    r"(?:[\u2600-\u26ff\u2764\u2728\U0001f300-\U0001faff](?:\ufe0f|\u200d[\u2600-\U0001faff])*)"
)
_BULLET = (
    r"(?![\u26a0\u26d4\U0001f449\U0001f4a1\U0001f4cc\U0001f4dd\U0001f535\U0001f536-\U0001f53b])"
)
# One that has not come to its end, at the end of the text so far.
_BEGUN = r"(?:\[\^?[\w, -]{0,12}|\u200d)?\Z"
_TAIL = rf"(?:{_CLOSER}|[*_`]|{_CITATION}){{0,64}}(?:[ ]?{_BULLET}{_EMOJI}){{0,8}}"
_CANDIDATE = re.compile(
    rf"(?P<wide>{_WIDE}{{1,64}}{_CLOSER}{{0,64}})"
    rf"|(?P<spaced>{_SPACED}{{1,64}}){_TAIL}(?=\s|{_BEGUN})"
    r"|(?<=[\da-z])\)(?=\s|\Z)"
    r"|(?P<line>\n)"
)
_TRIGGER = re.compile(r"[.!?…؟۔।॥։:;。！？｡．፧።၊။\n)]").search
_SPACE = re.compile(r"\s").search
_FIRST_SPACE = re.compile(r"\s+").search
_BEGUN_WORD = re.compile(r" \w{1,15}").fullmatch
# A sentence of plain words, and the whole word after it. The engine alone decides about it.
_PLAIN_SENTENCE = re.compile(r"( ?[A-Za-z][A-Za-z0-9 ,'-]*[.!?]) [A-Za-z]{1,40}(?=\s)").match
_WIDE_SPACE = re.compile(r"[^\S\x00-\x7f]")
_NEEDS_SPACE = ".!?:;)"
_ANYTHING = re.compile("").search
_NEXT_WORD = re.compile(r"\s*\n[^\S\n]*\n|\s+(?:[^\w\s]+\s+)*\S*\w\S*(?=\s)")
_MARKER_ALONE = re.compile(rf"\s*({_MARKER})")
_MARKER_OF_HEADING = re.compile(rf"\s*(?:#{{1,6}}\s+|[*_]{{1,3}}){_MARKER}")
_MARKUP = re.compile(r"[*`]+|(?<!\w)_+|_+(?!\w)")
_NO_PROSE = re.compile(rf"{_CITATION}|{_EMOJI}")
_HAS_MARKUP = re.compile(r"[*_`]").search
_CODE = re.compile(r"`[^`\n]+`")
# A number follows these abbreviations, so the sentence does not end there.
_BEFORE_NUMBER = re.compile(
    r"\b(?:approx|art|ca|chap?|eqn?|ex|figs?|nos?|pp?|sect?|tab|vers?|vols?)\.\Z", re.IGNORECASE
)
_NUMBER = re.compile(r"\s+\d")
_FENCE = re.compile(r"[^\S\n]*(```+|~~~+)")
_LINE_START = re.compile(r"[^\S\n]*(?:\S{1,12}\s|\n|\S{12})")
_ITEM = re.compile(r"[^\S\n]*(?:[-*+•⁃‣◦]|\d{1,3}[.)]|#{1,6})\s|[^\S\n]*(?:\||```|~~~|\n)")
_OWN_LINE = re.compile(r"[^\S\n]*(?:#{1,6}\s|\|)")
_BEGINS = re.compile(r"""\s+["'“‘«„(\[]*(\w)""")
_PAIRS = dict(zip("([{“«„「『（《", ")]}”»“」』）》", strict=True))
_QUOTES = re.compile(r"""[(\[{“«„「『（《)\]}”»」』）》"]""")

_SCRIPTS = [
    ("ja", re.compile("[\u3040-\u30ff]")),
    ("zh", re.compile("[\u3400-\u9fff]")),
    ("hy", re.compile("[\u0530-\u058f]")),
    ("fa", re.compile("[\u06a9\u06af\u067e\u0686\u06cc]")),
    ("ar", re.compile("[\u0600-\u06ff]")),
    ("hi", re.compile("[\u0900-\u097f]")),
    ("am", re.compile("[\u1200-\u137f]")),
    ("my", re.compile("[\u1000-\u109f]")),
    ("el", re.compile("[\u0370-\u03ff]")),
    ("kk", re.compile("[әғқңөұүһі]", re.IGNORECASE)),
    ("ru", re.compile("[\u0400-\u04ff]")),
]


PART = 4096
"""Characters that are searched at a time."""

PLAIN_DELTAS = 256
"""Deltas without a boundary that are remembered, so that they are not searched again."""


class SentenceChunker(PendingChunker):
    """Cuts between sentences, also in text with Markdown and emoji, as chat models write it.

    Markup, citations and an emoji behind a full stop belong to its sentence. A code fence is one
    chunk. A list item, a heading and a table row each begin a new chunk.

    Args:
        lang: ISO 639-1 code of the language. With `None`, the script decides, and text in
            Latin letters counts as English.
        max_chars: As in `TextChunker`.

    Example:
        >>> sentences = SentenceChunker()
        >>> [c.text for c in sentences.feed("Dr. Brown left at 5 p.m. today. No one saw it.")]
        ['Dr. Brown left at 5 p.m. today.']
        >>> sentences.flush()[0].text
        'No one saw it.'
    """

    grain = 2

    def __init__(self, *, lang: str | None = None, max_chars: int | None = None) -> None:
        super().__init__(max_chars=max_chars)
        self._lang = lang
        self._unseen: list[str] = []
        self._plain: set[str] = set()  # deltas without a trigger, most of which repeat
        self._recent = ""
        self._from = 0
        self._awaited = _TRIGGER
        self._next_item: str | None = None
        self._fence: str | None = (
            None  # the marks that close the code fence around, if there is one
        )

    def feed(self, delta: str) -> list[Chunk]:
        """Take the next piece of text; return the chunks it completes."""
        # Runs for every token. Most tokens decide nothing.
        if type(delta) is not str or self._max_chars is not None:
            return super().feed(delta)
        unseen, awaited = self._unseen, self._awaited
        unseen.append(delta)
        if awaited is _TRIGGER and delta in self._plain:
            return self._decide(ended=False) if len(unseen) > PATIENCE else []
        trigger = awaited(delta)
        if trigger is None:
            if awaited is _TRIGGER and len(self._plain) < PLAIN_DELTAS:
                self._plain.add(delta)
            return self._decide(ended=False) if len(unseen) > PATIENCE else []
        if awaited is _FIRST_SPACE and _BEGUN_WORD(delta):
            self._awaited = _SPACE  # the next word has to end
            return []
        needs_space = trigger.group() in _NEEDS_SPACE
        if awaited is not _TRIGGER or trigger.end() + needs_space < len(delta):
            return self._decide(ended=False)
        # A terminator ends the delta: nothing can be decided before more text comes.
        self._awaited = _FIRST_SPACE if needs_space else _ANYTHING
        return []

    def advance(self, delta: str) -> list[Chunk]:
        """Decide every candidate that has enough text after it."""
        self._unseen.append(delta)
        return self._decide(ended=False)

    def flush(self) -> list[Chunk]:
        """Decide the remaining candidates, and return the rest."""
        chunks = self._decide(ended=True)
        return chunks + super().flush()

    def restart(self) -> None:
        """Reset the search to the start of the pending text."""
        self._recent = self.pending()
        self._from, self._awaited, self._next_item = 0, _TRIGGER, None

    def __copy__(self) -> SentenceChunker:
        """Return an independent copy with the same state."""
        twin: SentenceChunker = super().__copy__()
        twin._unseen = list(self._unseen)
        return twin

    def _decide(self, *, ended: bool) -> list[Chunk]:
        """Decide the candidates in the new text, a part at a time, as each cut copies what follows it."""
        unseen = "".join(self._unseen)
        self._unseen.clear()
        chunks: list[Chunk] = []
        at = 0
        while len(unseen) - at > PART:
            chunks += self._decide_in(unseen[at : at + PART], ended=False)
            at += PART
        return chunks + self._decide_in(unseen[at:], ended=ended)

    def _decide_in(self, text: str, *, ended: bool) -> list[Chunk]:
        self.keep(text)
        self._recent += text
        chunks: list[Chunk] = []
        while True:
            if end := self._cut_plain():
                chunks += self.emit(len(self._recent) - end)
                self._recent, self._from = self._recent[end:], 0
                continue
            found = _next_candidate(self._recent, self._from)
            if found is None:
                self._from, self._awaited = len(self._recent), _TRIGGER
                self._forget()
                return chunks
            known = self._known_until(found, ended=ended)
            if known is None:
                self._from = found.start()
                self._awaited = _ANYTHING if found.lastgroup == "wide" else _SPACE
                self._forget()
                return chunks
            cut = self._cut_at(found, known)
            if cut is None:
                self._from = found.end()
                continue
            chunks += self.emit(len(self._recent) - cut)
            self._recent, self._from, self._next_item = self._recent[cut:], 0, None

    def _cut_plain(self) -> int:
        """Return the end of a sentence of plain words, as most are: `_cut_at` at a third of its cost; 0 for others."""
        text = self._recent
        if self._fence is None and self._next_item is None and (plain := _PLAIN_SENTENCE(text)):
            end = plain.end(1)
            begin = max(end - CONTEXT, 0)
            if end > max(self._from, LONGEST_MARKER) and _ends_sentence(
                self._lang, text[begin : plain.end()], end - begin
            ):
                return end
        return 0

    def _known_until(self, found: re.Match[str], *, ended: bool) -> int | None:
        """Return the offset up to which a decision needs text; `None` if the text has not arrived."""
        text, at = self._recent, found.end()
        if found.lastgroup == "line":
            need = _end_of_line_start(text, at)
        else:
            need = _end_of_next_word(text, at, wide=found.lastgroup == "wide")
            if need is not None and (opened := _unclosed(text, at)) is not None:
                need = _end_of_quotation(text, opened, need)
        if need is None or need > len(text):
            return len(text) if ended else None
        return need

    def _cut_at(self, found: re.Match[str], known: int) -> int | None:
        text, end = self._recent, found.end()
        if found.lastgroup == "line":
            return self._cut_at_line(found)
        if self._fence is not None:  # code is not prose
            return None
        if end <= LONGEST_MARKER and (marker := _MARKER_ALONE.fullmatch(text, 0, end)):
            # "1." begins an item, it does not end a sentence.
            self._next_item = _successor(marker.group(1))
            return None
        if self._next_item is not None and text.endswith(self._next_item, 0, end):
            return end - len(self._next_item)
        return end if self._is_end(found, known) else None

    def _is_end(self, found: re.Match[str], known: int) -> bool:
        """Return whether a sentence ends at the candidate."""
        text, end = self._recent, found.end()
        if text[end - 1] == ")" and found.group() == ")":
            return False
        if end <= LONGEST_HEADING and _MARKER_OF_HEADING.fullmatch(text, 0, end):
            return False
        begin = max(end - CONTEXT, 0)
        shown, at = text[begin:known], end - begin
        if _NUMBER.match(text, end) and _BEFORE_NUMBER.search(shown, 0, at):
            return False
        # "(It rained.) She stayed.": the engine takes both for one sentence.
        if not begin and text[end - 1] in ")]" and self._is_sentence_in_brackets(text, end, known):
            return True
        stop = found.end("spaced") - begin if found.lastgroup == "spaced" else at
        if stop < at or _HAS_MARKUP(shown):
            # The engine expects prose: remove markup, citations and emoji.
            closers = _MARKUP.sub("", _NO_PROSE.sub("", shown[stop:at])).rstrip()
            before = _MARKUP.sub("", _CODE.sub("code", shown[:stop])) + closers
            shown, at = before + _MARKUP.sub("", shown[at:]), len(before)
        return _ends_sentence(self._lang, shown, at)

    def _cut_at_line(self, found: re.Match[str]) -> int | None:
        text = self._recent
        line = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
        fence = _FENCE.match(line)
        if self._fence is not None:
            if fence is None or not fence[1].startswith(self._fence) or line.strip(" \t`~"):
                return None
            self._fence = None
            return found.end()
        if fence is not None:
            self._fence = fence[1]
            return None
        if _ITEM.match(text, found.end()) or _OWN_LINE.match(line):
            return found.end()
        return None

    def _is_sentence_in_brackets(self, text: str, end: int, known: int) -> bool:
        """Return whether a sentence in brackets ends there, before the next one begins."""
        if not (_is_bracketed(text, end) and _begins_sentence(text, end)):
            return False
        inside = text[:end].lstrip()[1:-1]
        if inside[-1] != ".":
            return True
        # "(Dr.)" is not a sentence; the engine knows the abbreviations.
        return " " in inside and _ends_sentence(self._lang, inside + text[end:known], len(inside))

    def _forget(self) -> None:
        """Drop the text that no later decision needs."""
        drop = self._from - CONTEXT
        if drop > CONTEXT:
            self._recent, self._from = self._recent[drop:], CONTEXT


def _next_candidate(text: str, start: int) -> re.Match[str] | None:
    while trigger := _TRIGGER(text, start):
        if found := _CANDIDATE.match(text, trigger.start()):
            return found
        start = trigger.end()
    return None


def _ends_sentence(lang: str | None, text: str, at: int) -> bool:
    """Return whether the engine ends a sentence at `at`, not counting the whitespace after it."""
    end = 0
    if not text.isascii():
        # The engine panics at whitespace of several bytes before a full stop (sentencex 1.0.32). Halves of surrogate
        # pairs come where no pipeline has repaired them.
        text = _WIDE_SPACE.sub(" ", without_halves(text))
    for sentence in sentencex.segment(lang or _language(text), text):
        if end + len(sentence.rstrip()) == at:
            return True
        end += len(sentence)
        if end > at:
            return False
    return False


def _is_bracketed(text: str, end: int) -> bool:
    """Return whether the text up to `end` is only a sentence in brackets."""
    opened = len(text) - len(text.lstrip())
    closer = {"(": ")", "[": "]"}.get(text[opened : opened + 1])
    if closer is None or text[end - 1] != closer or text[end - 2] not in ".!?…":
        return False
    opener, depth = text[opened], 0
    for at in range(opened, end):
        depth += (text[at] == opener) - (text[at] == closer)
        if not depth and at < end - 1:
            return False
    return depth == 0


def _begins_sentence(text: str, at: int) -> bool:
    word = _BEGINS.match(text, at)
    return word is not None and not word[1].islower()


def _language(text: str) -> str:
    if text.isascii():
        return "en"
    return next((lang for lang, letters in _SCRIPTS if letters.search(text)), "en")


def _end_of_next_word(text: str, at: int, *, wide: bool) -> int | None:
    if wide:
        return at + 1 if at < len(text) else None
    word = _NEXT_WORD.match(text, at, at + LOOKAHEAD)
    if word is not None:
        return word.end()
    return at + LOOKAHEAD if len(text) >= at + LOOKAHEAD else None


def _end_of_line_start(text: str, at: int) -> int | None:
    line = _LINE_START.match(text, at)
    if line is not None:
        return line.end()
    return at + LOOKAHEAD if len(text) >= at + LOOKAHEAD else None


def _successor(marker: str) -> str:
    """Return the marker of the next item: "2.)" after "1.)", "• b." after "• a."."""

    def following(value: re.Match[str]) -> str:
        text = value.group()
        return str(int(text) + 1) if text.isdigit() else chr(ord(text) + 1)

    return re.sub(r"\d+|[a-z]", following, marker, count=1)


def _unclosed(text: str, at: int) -> int | None:
    """Return where the quotation or bracket around `at` opens, if that is not too far back."""
    start = max(at - QUOTED, 0)
    if _QUOTES.search(text, start, at) is None:
        return None  # the common case
    opened: list[tuple[str, int]] = []
    for mark in _QUOTES.finditer(text, start, at):
        char = mark.group()
        if opened and opened[-1][0] == char:
            opened.pop()
        elif char == '"':
            opened.append((char, mark.start()))
        elif char in _PAIRS:
            opened.append((_PAIRS[char], mark.start()))
    return opened[0][1] if opened else None


def _end_of_quotation(text: str, opened: int, need: int) -> int:
    """Return the end of the quotation that opens at `opened`, or the offset up to which to wait for it."""
    bound = max(opened + QUOTED, need)
    closer = _PAIRS.get(text[opened], '"')
    closed = text.find(closer, need, bound)
    if closed < 0:
        return bound
    return max(closed + 1, need)
