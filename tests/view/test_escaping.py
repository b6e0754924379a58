"""Tests of `streamval.view.escaping`."""

from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from streamval.view.escaping import escaped


@given(st.text(st.characters()), st.none() | st.integers(1, 10))
def test_any_text_is_text_in_an_element_and_in_an_attribute(text, limit):
    made = escaped(text, limit)
    root = ET.fromstring(f'<a b="{made}">{made}</a>')
    assert len(root) == 0
    if limit is not None:
        assert len(root.text or "") <= limit


def test_halves_of_pairs_and_characters_that_steer():
    assert escaped("\ud83d \x1b \u202e \ufffe") == "\ufffd \u241b \ufffd \ufffd"
