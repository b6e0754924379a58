"""Tests of `streamval.structured.json_events`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamval.structured.json_events import HEAD, Frame, OpenString, path_of


@given(st.lists(st.text()))
def test_a_string_that_has_begun_is_the_same_however_it_came(pieces):
    whole = OpenString(3, "", 0, escaped=False).and_then("".join(pieces))
    begun = OpenString(3, "", 0, escaped=False)
    for piece in pieces:
        begun = begun.and_then(piece)
    assert begun == whole
    assert whole.size == len("".join(pieces))
    assert whole.head == "".join(pieces)[:HEAD]
    assert whole.escaped == ("\\" in "".join(pieces))


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("name", "$.name"),
        (0, "$[0]"),
        ("two words", "$['two words']"),
        ("9", "$['9']"),
        ("é", "$.é"),
    ],
)
def test_a_path_says_where(key, path):
    assert path_of("$", key) == path


@pytest.mark.parametrize(
    ("frame", "path", "way"),
    [
        (Frame("{", "$", 0), "$", "{"),
        (Frame("{", "$", 0, key="a", since=['"a"', ":"]), "$.a", '{"a":'),
        (Frame("{", "$", 0, has_value=True, since=[","]), "$", '{"":"",'),
        (Frame("[", "$.a", 5, index=7, has_value=True), "$.a[7]", '[""'),
    ],
)
def test_an_open_container_knows_what_is_due_and_a_short_way_to_it(frame, path, way):
    assert frame.child() == path
    assert frame.shortest_way() == way
