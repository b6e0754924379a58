"""Tests of `streamval.structured.values`."""

import json

from hypothesis import given
from hypothesis import strategies as st

from streamval.structured.values import ValueReader

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(
    st.lists(JSON, max_size=4) | st.dictionaries(st.text(max_size=6), JSON, max_size=4),
    st.integers(1, 9),
)
def test_the_last_value_is_the_whole_and_slicing_does_not_show(value, size):
    text = json.dumps(value, ensure_ascii=False)
    reader = ValueReader()
    found = [pair for n in range(0, len(text), size) for pair in reader.feed(text[n : n + size])]
    assert found[-1] == ("$", value)
    assert found == ValueReader().feed(text)


def test_each_container_comes_after_what_is_in_it():
    assert [path for path, _ in ValueReader().feed('{"a": [1, {"b": 2}], "c": 3}')] == [
        "$.a[0]",
        "$.a[1].b",
        "$.a[1]",
        "$.a",
        "$.c",
        "$",
    ]


def test_of_a_repeated_key_the_last_value_stays_as_in_json():
    assert ValueReader().feed('{"a": 1, "a": 2}')[-1] == ("$", {"a": 2})
