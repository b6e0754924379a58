"""Tests of `streamval.view.patch`."""

import json

from hypothesis import given
from hypothesis import strategies as st

from streamval.view.patch import patch, patched

values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab\U0001f600", max_size=4),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=6,
)
NAMES = ["text", "pending", "rows", "state"]
flat = st.fixed_dictionaries(dict.fromkeys(NAMES, values))
snapshots = st.fixed_dictionaries({**dict.fromkeys(NAMES, values), "usage": st.none() | flat})


@given(snapshots, snapshots)
def test_a_patch_makes_the_one_of_the_other(before, after):
    change = json.loads(json.dumps(patch(before, after)))
    assert patched(before, change) == after


@given(snapshots)
def test_nothing_new_is_an_empty_patch(snapshot):
    assert patch(snapshot, json.loads(json.dumps(snapshot))) == {}


def test_a_long_text_is_not_sent_again():
    chunk = {"text": "x" * 100}
    before = {"text": [chunk] * 1000, "pending": "y" * 5000, "state": "running"}
    after = {"text": [chunk] * 1001, "pending": "y" * 5000 + "z", "state": "running"}
    assert patch(before, after) == {"text": {"keep": 1000, "add": [chunk]}, "pending": {"add": "z"}}
    assert len(json.dumps(patch(before, after))) < 200
