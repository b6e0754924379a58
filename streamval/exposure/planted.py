"""The planted cases: texts with one violation each, and harmless texts.

Each violation is in a sentence of its own behind good ones, in pieces as a model might stream it. The numbers of
cards are the test numbers of the card companies; the secrets were made up in the formats of their issuers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

Place: TypeAlias = Literal["text", "reasoning", "tool", "json"]

HARMLESS = "none"
WRONG_FIELD = "a wrong first field"
REPETITION = "a repetition"

_SUBJECTS = (
    *("harbour", "garden", "library", "mountain"),
    *("kitchen", "station", "market", "bridge"),
)
_SENTENCES = (
    "The {a} of the town opens early on day {n} of the season.",
    "People walk from the {a} to the {b} and talk about their plans.",
    "In the evening a quiet light falls over the old {a} and its {b}.",
    "A painter has coloured the door of the {a} in a deep and friendly green.",
    "Every visitor asks why the {a} was built so close to the {b}.",
    "Few people remember when the {a} was without its small wooden bench.",
)
_WORDS = (*("acme", "Globex", "initech", "HOOLI"), *("umbrella-corp", "acme's", "Acme,", "soylent"))
_RENDERED = (
    *(("ac**", "me**"), ("*A*", "cme"), ("A&shy;", "cme"), ("&#97;c", "me")),
    *(("ａｃ", "ｍｅ"), ("ac\u200b", "me"), ("<b>Ac</b>", "me"), ("[Ac](https://a.example)", "me")),
)
_PATTERNS = (
    *(("proj", "ect x-"), ("project ", "x-"), ("PROJ", "ECT X-")),
    *(("projec", "t x-"), ("p", "roject x-"), ("project", " x-")),
)
_SECRETS = (
    "AKIA" + "QX7DLP3ZK4MV2HTN",
    "ghp_" + "a8Kd72mQpZr5XvB1tYw9LnC4sGh3JfE6uRi0",
    "sk_" + "live_" + "4eC39HqLyjWDarjtT1zdp7dc",
    "xoxb" + "-263594206564-2343594206574-FGqddMF8t08v8N7Oq4i57vs1",
    "AKIA" + "ZR5TNW6QLM3X7JPB",
    "ghp_" + "Zq81LmXcV0bNhRt6YwEs3KdJfGu5PoIa7T2e",
)
_CARDS = (
    *("4111 1111 1111 1111", "5500005555555559", "3782 822463 10005"),
    *("6011-1111-1111-1117", "4012 8888 8888 1881", "5105105105105100"),
)
_FOREIGN = (
    "Heute ist das Wetter in der ganzen Stadt wieder sehr schön und alle gehen spazieren.",
    "Aujourd'hui il fait beau dans toute la ville et tout le monde se promène au soleil.",
    "Hoy hace muy buen tiempo en toda la ciudad y todos salen a pasear por el parque.",
    "Oggi il tempo è molto bello in tutta la città e tutti vanno a passeggio nel parco.",
    "Vandaag is het weer in de hele stad heel mooi en iedereen gaat buiten wandelen.",
)
_LOOKALIKES = (
    "550e8400-e29b-41d4-a716-446655440000",
    "3f786850e387550fdab836ed7e6dc881de23001b",
    "978-3-16-148410-0",
    "48.858222, 2.294500",
    "2026-03-01T10:22:31.004Z",
)


@dataclass(frozen=True, slots=True)
class Case:
    """One answer of the upstream.

    Attributes:
        kind: The kind of violation, or `HARMLESS`.
        before: The pieces before the violation.
        violation: The pieces of the violation; none in a harmless answer.
        after: The pieces behind it.
        place: Where the answer is written: as text, as reasoning before a short answer, in the arguments of a
            call, or as text that is JSON by a schema.
    """

    kind: str
    before: tuple[str, ...]
    violation: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    place: Place = "text"

    @property
    def pieces(self) -> tuple[str, ...]:
        """All pieces, in order."""
        return self.before + self.violation + self.after

    @property
    def bad(self) -> str:
        """The violation, without the white space around it."""
        return "".join(self.violation).strip()

    def shown(self, text: str) -> int:
        """Return how many characters of the violation are in a text that a client has seen.

        Example:
            >>> Case("a word", (), ("ac", "me "), ()).shown("It says acm")
            0
            >>> Case("a word", (), ("initech",), ()).shown("It says inite")
            5
        """
        bad = self.bad
        if self.kind == REPETITION:
            return len(bad) if text.count(bad) > 1 else 0
        if self.kind == WRONG_FIELD:
            return len(bad) if f'"name": {bad}' in text else 0
        shown = 0
        while shown < len(bad) and bad[: shown + 1] in text:
            shown += 1
        return shown if shown > 3 else 0  # the first letters of a word may be those of another word


def prose(seed: int, sentences: int) -> list[str]:
    """Return English sentences, all different."""
    made = []
    for n in range(sentences):
        at = seed + n
        a, b = _SUBJECTS[at % 8], _SUBJECTS[(at * 3 + n) % 8]
        sentence = _SENTENCES[n % 6].format(a=a, b=b, n=at + 11)
        made.append(sentence if n < 6 else f"{sentence} It was number {at + n * 7}.")
    return made


def words(text: str) -> tuple[str, ...]:
    """Return a text in pieces of a word and the space after it."""
    return tuple(f"{word} " for word in text.split(" "))


def _around(kind: str, seed: int, violation: tuple[str, ...], place: Place = "text") -> Case:
    """Put a violation into a sentence of its own, behind four good ones."""
    text = prose(seed, 10)
    before, after = " ".join(text[:4]), " ".join(text[4:])
    return Case(kind, words(f"{before} It says"), violation, words(f"there. {after}"), place)


def _instead(kind: str, seed: int, sentence: str) -> Case:
    """Put a sentence between good ones."""
    text = prose(seed, 10)
    return Case(kind, words(" ".join(text[:4])), words(sentence), words(" ".join(text[4:])))


def _pieces_of(secret: str) -> tuple[str, ...]:
    return (secret[:3], secret[3:11], secret[11:], " ")


def _split(card: str) -> tuple[str, ...]:
    return (card[:5], card[5:11], card[11:], " ")


def _in_sentences() -> Iterator[Case]:
    """Return the violations that stand in a sentence of their own."""
    planted: dict[str, list[tuple[str, ...]]] = {
        "a word": [(f"{word} ",) for word in _WORDS],
        "a word as it is rendered": [(one, f"{two} ") for one, two in _RENDERED],
        "a pattern over deltas": [(one, two, f"{n}7 ") for n, (one, two) in enumerate(_PATTERNS)],
        "a secret in pieces": [_pieces_of(secret) for secret in _SECRETS],
        "a number split in three": [_split(card) for card in _CARDS],
    }
    seed = 0
    for kind, violations in planted.items():
        for violation in violations:
            yield _around(kind, seed, violation)
            seed += 1


def _cases() -> Iterator[Case]:
    yield from _in_sentences()
    yield from (_instead("an unwanted language", n + 40, one) for n, one in enumerate(_FOREIGN))
    for n in range(4):
        rest = ', "people": 3, "text": "' + " ".join(prose(n, 6)) + '"}'
        yield Case(WRONG_FIELD, ('{"name"', ": "), (str(n + 1),), words(rest), "json")
    yield from (_instead(REPETITION, n + 50, prose(n + 50, 10)[1]) for n in range(5))
    for n, secret in enumerate(_SECRETS[:4]):
        yield _around("a secret in reasoning", n + 60, _pieces_of(secret), "reasoning")
        yield _around("a secret in a tool's arguments", n + 70, _pieces_of(secret), "tool")
    yield from (Case(HARMLESS, words(" ".join(prose(n + 80, 10)))) for n in range(10))
    for n, lookalike in enumerate(_LOOKALIKES):
        text = prose(n + 90, 10)
        line = f"The entry {lookalike} is in the list."
        yield Case(HARMLESS, words(" ".join([*text[:4], line, *text[4:]])))


@cache
def all_cases() -> tuple[Case, ...]:
    """Return the cases, the harmless ones last."""
    return tuple(_cases())


TOOL = {
    "name": "note",
    "description": "Write a note.",
    "parameters": {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    },
}

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "people": {"type": "integer"},
        "text": {"type": "string"},
    },
    "required": ["name", "people", "text"],
    "additionalProperties": False,
}
