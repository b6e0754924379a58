"""Tests of `streamval.structured.as_read`."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from streamval.structured.as_read import as_read, forms_of, unescaped


@pytest.mark.parametrize("text", ["Plain, as it is.", "snake_case, 2 < 3 & 4", "Zürich — naïve"])
def test_plain_text_has_one_form(text):
    assert forms_of(text) == (text,)


RENDERED = [
    *(
        "A **bold** _word_ and `code`.",
        "An \\*asterisk\\* and &lt;b&gt;",
        "a [link](https://a.org 'x')",
    ),
    *(
        "<b>bold</b> ![picture](a.png) of it",
        "Zwölf &auml;rgerliche &#x201c;Worte”",
        "a_b_c and __d__",
    ),
]


@pytest.mark.parametrize("text", RENDERED)
def test_it_reads_as_markdown_it_renders(text):
    inline = MarkdownIt("commonmark").parseInline(text)[0].children
    written = [t.content for t in inline if t.type != "html_inline"]
    assert as_read(text).replace("*", "") == "".join(written).replace("*", "")


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\\")))
def test_what_json_escapes_is_undone(text):
    assert unescaped(json.dumps(text)) == f'"{text}"'.replace('\\"', '"')


def test_a_control_character_joins_no_words_and_hides_none():
    assert unescaped(r"so\nbad") == "so bad"
    assert unescaped(r"\u0000\u0062ad") == " bad"


def test_a_lone_surrogate_stays_as_it_is():
    assert unescaped(r"\ud800x") == "\ud800x"
