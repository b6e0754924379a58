"""Tests of `streamval.chunkers.sentence`."""

import json
from pathlib import Path

import pytest

from streamval.chunkers import SentenceChunker

DATA = Path(__file__).parents[1] / "data"


ENGLISH = json.loads((DATA / "sentences_en.json").read_text())


OTHERS = json.loads((DATA / "sentences_other.json").read_text())


# As chat models write, the ends as an editor would put them.
MODELS = json.loads((DATA / "sentences_models.json").read_text())
MODELS_MISSED = {7, 8}


@pytest.mark.parametrize("number", range(1, len(MODELS) + 1))
def test_a_models_manner_fed_one_character_at_a_time(number):
    case = MODELS[number - 1]
    assert (sentences(case["text"]) == case["sentences"]) == (number not in MODELS_MISSED)


# What the chunker gets wrong, so that a change for the worse is seen, and one for the better too.
ENGLISH_MISSED = {48}


def sentences(text, **options):
    chunker = SentenceChunker(**options)
    chunks = [chunk for char in text for chunk in chunker.feed(char)]
    return [chunk.text.strip() for chunk in chunks + chunker.flush()]


@pytest.mark.parametrize("number", range(1, len(ENGLISH) + 1))
def test_english_golden_rules_fed_one_character_at_a_time(number):
    case = ENGLISH[number - 1]
    right = sentences(case["text"], lang="en") == case["sentences"]
    assert right == (number not in ENGLISH_MISSED)


def test_other_languages_fed_one_character_at_a_time():
    right = sum(
        sentences(case["text"], lang=case["lang"]) == [s.strip() for s in case["sentences"]]
        for case in OTHERS
    )
    assert right >= 226


def test_the_language_is_told_from_the_script():
    assert sentences("今日は。はい。") == ["今日は。", "はい。"]
    assert sentences("Это дом. Он большой.") == ["Это дом.", "Он большой."]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A list:\n- one\n- two\nDone.", ["A list:", "- one", "- two\nDone."]),
        ("# Title\nText here.", ["# Title", "Text here."]),
        ("No stop\n\nNext one", ["No stop", "Next one"]),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n", ["| a | b |", "|---|---|", "| 1 | 2 |"]),
        ("See:\n```\na = 1\n```\nDone.", ["See:", "```\na = 1\n```", "Done."]),
        ("```\nA. B.\n~~~\n```\nIt is. So.", ["```\nA. B.\n~~~\n```", "It is.", "So."]),
        ("````\n```\nA. B.\n```\n````\nDone.", ["````\n```\nA. B.\n```\n````", "Done."]),
        ("A code fence:\n```\nwithout. End.", ["A code fence:", "```\nwithout. End."]),
        ("One two\nthree four. Five.", ["One two\nthree four.", "Five."]),
    ],
)
def test_line_ends_that_no_sentence_crosses(text, expected):
    assert sentences(text) == expected


def test_a_quotation_keeps_its_sentences_together():
    text = 'She said, "It is late. We must go." Then she left.'
    assert sentences(text) == ['She said, "It is late. We must go."', "Then she left."]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(It rained.) She stayed.", ["(It rained.)", "She stayed."]),
        ("(It rained. It poured!) She stayed.", ["(It rained. It poured!)", "She stayed."]),
        ("[He laughs.] What now?", ["[He laughs.]", "What now?"]),
        ('(Yes!) "So he said."', ["(Yes!)", '"So he said."']),
        ("(Это дом.) Он большой.", ["(Это дом.)", "Он большой."]),
        ("(It rained.) she stayed.", ["(It rained.) she stayed."]),
        ("(1.) First thing.", ["(1.) First thing."]),
        ("(Prof.) Brown spoke.", ["(Prof.) Brown spoke."]),
        ("(etc.) They left.", ["(etc.) They left."]),
        ("(He met Dr.) Brown.", ["(He met Dr.) Brown."]),
        ("It was (so they say.) Over.", ["It was (so they say.) Over."]),
        ("(He said (no.) and left.) Then.", ["(He said (no.) and left.)", "Then."]),
    ],
)
def test_a_sentence_in_brackets(text, expected):
    assert sentences(text) == expected


def test_an_unclosed_quotation_keeps_them_only_for_a_bounded_stretch():
    text = '"It is late. ' + "We must go on and on. " * 20
    assert len(sentences(text)) > 10


def test_a_sentence_is_there_as_soon_as_the_word_after_it():
    chunker = SentenceChunker()
    assert chunker.feed("It rains. It") == []
    assert [chunk.text for chunk in chunker.feed(" ")] == ["It rains."]


@pytest.mark.parametrize(
    "unit",
    [
        "\n",
        "。",
        "!",
        ")",
        "“",
        "1. ",
        "```\n",
        "```a. B\n",
        "a.** ",
        "a. 🎉 ",
        "a.[1] ",
        "a。",
        ". ",
        "\u00a0",
    ],
)
@pytest.mark.slow
def test_no_text_costs_more_than_linear(unit):
    """Quadratic, it would take minutes: the test would time out."""
    chunker = SentenceChunker()
    for _ in range(50_000):
        chunker.feed(unit)
    chunker.flush()
    SentenceChunker().feed(unit * 50_000)


@pytest.mark.parametrize("size", [4, 10**9])
@pytest.mark.slow
def test_a_million_line_ends_cost_linear_time(size):
    """200,000 of them took six seconds, and so a million would time out."""
    chunker, text = SentenceChunker(), "\n" * 1_000_000 + "End."
    chunks = [c for at in range(0, len(text), size) for c in chunker.feed(text[at : at + size])]
    assert [chunk.text for chunk in chunks + chunker.flush()] == ["End."]


def test_a_text_in_one_piece_costs_what_it_costs_in_many():
    text = "It rains. " * 100_000  # each cut copied all text after it
    assert len(SentenceChunker().feed(text)) == 99_999


@pytest.mark.parametrize("space", ["\u00a0", "\u202f", "\u3000", "\u0085", "\u2003"])
def test_white_space_of_several_bytes_before_a_full_stop(space):
    """The engine panics there, with an exception that nothing catches."""
    chunker = SentenceChunker()
    chunks = chunker.feed(f"See A{space}. b c. Next one.") + chunker.flush()
    assert (
        "".join(chunk.separator + chunk.text for chunk in chunks) == f"See A{space}. b c. Next one."
    )
