"""Tests of `streamval.exposure.planted`."""

import pytest

from streamval.exposure.planted import HARMLESS, REPETITION, WRONG_FIELD, Case, all_cases, prose

CASES = all_cases()


def test_each_violation_is_behind_four_good_sentences_and_the_harmless_texts_are_last():
    kinds = [case.kind == HARMLESS for case in CASES]
    assert kinds == sorted(kinds)
    assert kinds.count(True) == 15
    for case in CASES:
        assert bool(case.violation) == (case.kind != HARMLESS)
        if case.violation and case.place != "json":
            assert "".join(case.before).count(". ") == 4


@pytest.mark.parametrize("case", [case for case in CASES if case.violation], ids=str)
def test_all_of_a_violation_is_counted_where_the_whole_answer_is_shown_and_nothing_without_it(case):
    assert case.shown("".join(case.pieces)) == len(case.bad)
    assert case.shown("".join(case.before)) == 0
    assert case.shown("All the rest of it is as good as anybody could wish.") == 0


def test_a_part_of_a_violation_counts_from_four_characters_on():
    case = Case("a word", (), ("init", "ech"))
    assert [case.shown(f"It is {'initech'[:n]}") for n in range(2, 8)] == [0, 0, 4, 5, 6, 7]


def test_sentences_are_all_different():
    text = prose(3, 10)
    assert len(set(text)) == 10
    kinds = {case.kind for case in CASES}
    assert {REPETITION, WRONG_FIELD} < kinds
