"""Tests of `streamval.structured.lexemes`."""

import json
import math

import pytest

from streamval.structured.lexemes import (
    LEXEME,
    OPENERS,
    STRING_GOES_ON,
    parser_message,
    unfinished_escape,
    with_small_exponents,
)


def test_lexemes_are_the_tokens_of_a_json_text():
    text = '{"a\\"b": [1.5e3, true],\n "": null}'
    assert [found[1] for found in LEXEME.finditer(text)] == [
        *("{", '"a\\"b"', "[", "1.5e3", "true", "]", '""', "null", "}")
    ]


@pytest.mark.parametrize(
    ("text", "token"),
    [("1word", "1"), ("null.5", "null"), ("01", "0"), ("1.5.5", "1.5"), ("-2E+7x", "-2E+7")],
)
def test_what_is_glued_to_a_literal_is_not_part_of_it(text, token):
    found = LEXEME.match(text)
    assert found is not None
    assert found[1] == token


@pytest.mark.parametrize("text", ["f(x){", "list[", "a)[", "x]["])
def test_an_index_or_a_body_begins_no_json(text):
    assert OPENERS[None].search(text) is None


@pytest.mark.parametrize(
    ("text", "goes_on", "escape"),
    [
        ("plain", True, ""),
        ('a \\" b', True, ""),
        ("ends in \\", True, "\\"),
        ("ends in \\\\", True, ""),
        ("ends in \\u00e", True, "\\u00e"),
        ("\\u00e9 and \\u00", True, "\\u00"),
        ('over"', False, ""),
        ("a\nline", False, ""),
        ("\\x", False, ""),
        ("\\u00g", False, ""),
    ],
)
def test_a_string_goes_on_up_to_its_end_or_a_fault(text, goes_on, escape):
    found = STRING_GOES_ON.match(text)
    assert (found is not None) == goes_on
    if found is not None:
        assert found[1] == escape == unfinished_escape(text)


def test_smaller_exponents_mean_the_same_float():
    text = '{"a": 1e99999999, "b": -2.5E-1234567, "c e+12345678": "5e12345678"}'
    there, here = json.loads(text), json.loads(with_small_exponents(text))
    assert here == there
    assert here["a"] == math.inf
    assert "5e12345678" in here.values()


def test_a_complaint_is_one_line_without_the_text_around_it():
    assert (
        parser_message(ValueError("lexical error: no.\n   {x\n  (right here)"))
        == "lexical error: no"
    )
