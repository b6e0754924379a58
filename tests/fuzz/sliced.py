"""Random text in random slices: what a reader or a chunker makes of it does not depend on them."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from streamval.chunkers.chunking import start_chunker
from streamval.structured.json_events import OpenString
from streamval.structured.reader import JSONReader
from tests.fuzz.typed import sliced

if TYPE_CHECKING:
    import random

JSON = [
    *('{"', '"a"', '"a":', '":', '", "', "{", "}", "[", "]", ",", ":", '"', "\\", '\\"', "\\u00e9"),
    *("\\u0", "\\u00", "\\ud83d", "\\\\"),
    *("1", "-", "0.5", "e9", "1e400", "true", "nul", "null", " ", "\n", "word", "\ud83d", "\x00"),
    *("```json\n", "```", "Sure: ", "[1]", '{"a": 1}', "]]", "}}", "NaN", "é", "\u2028"),
]
PROSE = [
    *(
        "It rains. ",
        "(It rained.) ",
        "Dr. Brown ",
        "e.g. ",
        "3.5 ",
        "!? ",
        "…",
        "。",
        "」",
        '"',
        "“",
    ),
    *("\n", "\n\n", "\r\n", " ", "\t", "- ", "1. ", "# T", "```", "~~~", "| a |", "> ", "[x]: y"),
    *("word", "ﬁ", "\u200b", "\ud83d\ude00", "é", "Это ", "今日", "<b>", "**b** ", "$x$", "\\"),
]
EMOJI = [
    *(
        "Great!",
        "Next one. ",
        "👩",
        "\u200d",
        "👧",
        "\ufe0f",
        "❤",
        "🏽",
        "🇩🇪",
        "1️⃣",
        "\u20e3",
        "⭐",
        "✅",
    ),
    *("👩\u200d👩\u200d👧", "[1]", "[", "^2]", "¹", " ", ".", "!", "?", "。", "\n", "*", ")", '"'),
]
CHUNKINGS = ["sentence", "word", "paragraph", "line", "markdown", "json", None]


def text_of(pieces: list[str], rng: random.Random) -> str:
    """Some of the pieces, glued together."""
    return "".join(rng.choices(pieces, k=rng.randint(1, 25)))


def read(slices: list[str], *, copied: bool = False) -> tuple[Any, ...]:
    """What a `JSONReader` says of slices, in the end; the reader is copied after each, or not."""
    reader, events = JSONReader(), []
    for piece in slices:
        events += reader.feed(piece)
        if copied:
            reader = copy(reader)
    string = reader.begun if isinstance(reader.begun, OpenString) else None
    return events, reader.error, reader.began_at, reader.ended_at, string


def reader_difference(rng: random.Random) -> str | None:
    """Slicings of one text that a `JSONReader` takes differently, or `None`."""
    text = text_of(JSON, rng)
    slices = sliced(text, rng)
    whole = read([text])
    for name, other in (
        ("by character", read(list(text))),
        (f"in {slices!r}", read(slices)),
        (f"copied, in {slices!r}", read(slices, copied=True)),
    ):
        if repr(other) != repr(whole):
            return f"{text!r} as a whole: {whole!r}\n  {name}: {other!r}"
    return None


def chunks(chunking: str | None, slices: list[str]) -> list[tuple[str, int, int, str]]:
    """What a chunker makes of slices."""
    chunker = start_chunker(chunking)
    made = [chunk for piece in slices for chunk in chunker.feed(piece)] + chunker.flush()
    return [(chunk.text, chunk.start, chunk.end, chunk.separator) for chunk in made]


def chunker_difference(rng: random.Random) -> str | None:
    """Slicings of one text that a chunker takes differently, or chunks that are not the text."""
    text = text_of(rng.choice([PROSE, PROSE + JSON, EMOJI, PROSE + EMOJI]), rng)
    chunking, slices = rng.choice(CHUNKINGS), sliced(text, rng)
    found = chunks(chunking, slices)
    if "".join(separator + chunk for chunk, _, _, separator in found).rstrip() != text.rstrip():
        return f"{chunking} loses some of {text!r}: {found!r}"
    if any(text[start:end] != chunk for chunk, start, end, _ in found):
        return f"{chunking} misplaces a chunk of {text!r}: {found!r}"
    if chunking is not None and (whole := chunks(chunking, [text])) != found:
        return f"{chunking}, {text!r} as a whole: {whole!r}\n  in {slices!r}: {found!r}"
    return None
