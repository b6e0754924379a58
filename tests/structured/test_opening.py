"""Tests of `streamval.structured.opening`."""

from copy import copy

import pytest

from streamval.structured.opening import Opening, unfenced

TEXTS = [
    ('{"a": 1}', "json", 0),
    ("  \n[1]", "json", 3),
    ('```json\n{"a"', "json", 8),
    ("```\n  [", "json", 6),
    ("````\n[", "prose", 0),
    ("`[1]`", "prose", 0),
    ("```{r}\n[1]\n```", "prose", 0),
    ("```" + "x" * 60 + "\n[1]", "prose", 0),
    ("Sure: [1]", "prose", 0),
    ("12 [1]", "prose", 0),
    ('"see [1]" is {"a": 1}', "prose", 0),
    ('"see\n[1]"', "prose", 0),
    ('```\n"see [1]"\n```', "string", 4),
    ('"see [1]"\n```', "prose", 0),
]


def opened(pieces):
    opening = Opening()
    for piece in pieces:
        known = opening.feed(piece)
        if known is not None:
            return opening, known
        opening = copy(opening)
    return opening, None


@pytest.mark.parametrize(("text", "kind", "at"), TEXTS)
def test_what_a_text_begins_with_whatever_its_slices(text, kind, at):
    opening, known = opened([text])
    assert (opening.kind, opening.at) == (kind, at)
    assert known == text[at:]
    for size in (1, 2, 3, 7):
        pieces = [text[n : n + size] for n in range(0, len(text), size)]
        opening, known = opened(pieces)
        assert (opening.kind, opening.at) == (kind, at)
        assert text[at:].startswith(known)


@pytest.mark.parametrize("text", ["", " \n", "`", "```js", '"see [1', '"a\\'])
def test_what_is_not_certain_yet(text):
    opening, known = opened([text])
    assert opening.kind is known is None
    assert not opening.is_string


def test_a_string_and_nothing_else():
    opening, _ = opened(['"see ', '[1]\\"', '" \n'])
    assert opening.kind is None
    assert opening.is_string


@pytest.mark.parametrize("unit", [" ", "a", "\\\\", "``"])
def test_an_opening_without_end_costs_linear_time(unit):
    opening = Opening()
    opening.feed('"' if unit != " " else " ")
    for _ in range(200_000):  # quadratic, it would time out
        opening.feed(unit)


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("```json\n6\n```", "6"),
        ("```\n6", "6"),
        (" 6 ", "6"),
        ("```6```", "```6```"),
        ("a ```\n6\n```", "a ```\n6\n```"),
    ],
)
def test_unfenced(text, inside):
    assert unfenced(text) == inside


def test_a_fence_and_many_line_ends_cost_linear_time():
    """20,000 of them took ten seconds, and so these would time out."""
    assert unfenced("```json\n" + "\n" * 1_000_000 + "x") == "x"
    assert unfenced("```json\n6" + "\n" * 1_000_000) == "6"
