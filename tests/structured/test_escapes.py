import json

from hypothesis import given
from hypothesis import strategies as st

from streamval.structured.escapes import unescaped


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\\")))
def test_what_json_escapes_is_undone(text):
    assert unescaped(json.dumps(text)) == f'"{text}"'.replace('\\"', '"')


def test_a_control_character_joins_no_words_and_hides_none():
    assert unescaped(r"so\nbad") == "so bad"
    assert unescaped(r"\u0000\u0062ad") == " bad"


def test_a_lone_surrogate_stays_as_it_is():
    assert unescaped(r"\ud800x") == "\ud800x"
