"""Tests of `streamval.structured.reader`."""

import copy
import json
import random
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

import streamval as sv
from streamval.structured.reader import DEEPEST, LONGEST_BLANK, JSONReader, json_in
from streamval.structured.schema import Schema, SchemaWatch
from tests.fuzz.sliced import reader_difference
from tests.support.sources import Spoken


def run(wanted, *texts, size=4, prefix=False, **options):
    backend = Spoken(
        *([text[n : n + size] for n in range(0, len(text), size)] for text in texts),
        supports_prefix=prefix,
    )
    return sv.Pipeline(backend, format=wanted, **options).run("x"), backend


class City(BaseModel):
    name: str
    people: int = Field(ge=0)


async def test_a_long_string_is_read_once():
    """Read again with each delta, it would take minutes: the test would time out."""
    watch = SchemaWatch(Schema(City))
    assert watch.feed('{"name": "') is None
    for _ in range(200_000):
        assert watch.feed("word") is None
    text = '{"name": "' + "word" * 30_000 + '", "people": 1}'
    going, _ = run(City, text, prefix=True, retry=sv.Repair())
    assert (await going).success


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)
AROUND = st.sampled_from(
    ["", "Sure: ", "```json\n", "see [", "a {b} ", "x[0] = ", "[1, {", '{"a" b ']
)


def read(text, cuts=()):
    """Events, error and end of a text, in pieces."""
    reader = JSONReader()
    places = [0, *sorted(cut for cut in cuts if cut <= len(text)), len(text)]
    events = [event for a, b in pairwise(places) for event in reader.feed(text[a:b])]
    return events, reader.error, (reader.began_at, reader.ended_at)


@given(AROUND, JSON, st.booleans(), AROUND, st.sets(st.integers(0, 200)), st.integers(0, 99))
@example("", {"": "\x1f"}, False, "Sure: ", {7}, 4)
def test_no_slicing_shows_whether_the_json_is_whole_or_broken(
    before, value, plain, behind, cuts, missing
):
    text = before + json.dumps([value], ensure_ascii=not plain)
    text = text[: len(text) - missing] if missing < 9 else text
    assert read(text + behind, cuts) == read(text + behind)


@given(JSON, st.sets(st.integers(0, 200)))
def test_offsets_are_those_of_the_text(value, cuts):
    text = "Here: " + json.dumps({"key": value})
    events, error, (began, ended) = read(text, cuts)
    assert error is None
    assert text[began:ended] == json.dumps({"key": value}) == json_in(text)
    for event in events:
        if event.kind in ("value", "end"):
            inner = json.loads(text[event.start : event.end])
            assert event.kind == "end" or inner == event.value


@given(JSON, st.integers(0, 60))
def test_a_copy_goes_on_by_itself(value, at):
    text = json.dumps([value])
    whole = JSONReader().feed(text)
    reader = JSONReader()
    before = reader.feed(text[:at])
    twin = copy.copy(reader)
    reader.feed("]]]}}}")
    assert before + twin.feed(text[at:]) == whole


@pytest.mark.parametrize("cuts", [(), range(60)])
@pytest.mark.parametrize(
    ("number", "value"),
    [
        ("1e99999999999999999999", float("inf")),
        ("-2E-99999999999999999999", 0),
        ("1e400", float("inf")),
    ],
)
def test_a_number_beyond_all_bounds_is_what_a_float_makes_of_it(number, value, cuts):
    events, error, _ = read(f'{{"f": {number}, "g": 1}}', cuts)
    assert error is None
    assert [event.value for event in events if event.kind == "value"] == [value, 1]


def test_what_looks_like_a_huge_number_in_a_string_stays_as_it_is():
    text = '{"a": "1e100000 x", "b": 1e99999999999999999999, "c": "\\"2E123456"}'
    events, error, _ = read(text)
    values = [event.value for event in events if event.kind == "value"]
    assert (error, values) == (None, ["1e100000 x", float("inf"), '"2E123456'])


def test_what_nests_too_deep_is_an_error_and_cheap():
    reader = JSONReader()
    for _ in range(20_000):
        reader.feed("[" * 5)
    assert f"nests more than {DEEPEST}" in reader.error
    assert len(reader._frames) == DEEPEST + 1


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(
    "text", ['{"a": |1}', '{"a"|: 1}', '{"a": 1, |"b": 1}', "[1|]", '{"a": "b"|}']
)
def test_spaces_without_end_are_an_error(text, size):
    """Models that are held to JSON may write them until their limit."""
    for blank, wrong in ((" \n", True), ("\t", False)):
        written = text.replace("|", blank * (LONGEST_BLANK - 10))
        reader = JSONReader()
        for at in range(0, len(written), size):
            reader.feed(written[at : at + size])
        assert ("1,024 spaces in a row" in str(reader.error)) is wrong
    whole = JSONReader()
    whole.feed('{"a": "' + " " * 5000 + '"}')
    assert (whole.error, whole.ended_at) == (None, 5009)


def test_a_raw_line_break_in_a_string_is_found_at_once():
    reader = JSONReader()
    reader.feed('{"a": "one')
    assert reader.error is None
    reader.feed(" two\n")
    assert "invalid character inside string" in reader.error


def test_fuzzed_slicings_make_no_difference():
    for seed in range(3000):
        assert reader_difference(random.Random(seed)) is None, f"seed {seed}"


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_a_number_of_any_length_costs_linear_time(size):
    """80,000 digits took four seconds, and so these would time out."""
    reader, text = JSONReader(), '{"a": 0.' + "1" * 600_000 + "}"
    events = [e for at in range(0, len(text), size) for e in reader.feed(text[at : at + size])]
    assert [event.end for event in events if event.kind == "value"] == [600_008]


@pytest.mark.parametrize(
    "number", ["1" * 70 + "." + "2" * 70, "-" + "9" * 65 + "e1", "0" * 70, "1" * 64 + "x"]
)
def test_a_long_number_is_read_the_same_however_it_is_sliced(number):
    for text in (f"[{number}]", f'{{"a": {number}, "b": [{number}]}}'):
        whole = JSONReader()
        known = whole.feed(text)
        for size in (1, 3, 63, 64, 65):
            reader = JSONReader()
            got = [e for at in range(0, len(text), size) for e in reader.feed(text[at : at + size])]
            assert (repr(got), reader.error) == (repr(known), whole.error)
