"""The laws that every chunker keeps, over adversarial text."""

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamval.chunkers import (
    JSONChunker,
    LineChunker,
    MarkdownChunker,
    ParagraphChunker,
    RegexChunker,
    SentenceChunker,
    WordChunker,
)
from streamval.errors import ChunkerError, DeltaTypeError, UsageError
from streamval.testing import check_chunker, check_chunker_cost
from tests.fuzz.sliced import EMOJI, chunker_difference

CHUNKERS = {
    "sentence": SentenceChunker,
    "sentence-de": lambda: SentenceChunker(lang="de"),
    "word": WordChunker,
    "paragraph": ParagraphChunker,
    "line": LineChunker,
    "markdown": MarkdownChunker,
    "json": JSONChunker,
    "json-object": lambda: JSONChunker(root="object"),
    "json-bounded": lambda: JSONChunker(max_chars=9),
    "regex-semicolon": lambda: RegexChunker(r";\s*"),
    "regex-greedy": lambda: RegexChunker(r"\n+"),
    "regex-lookaround": lambda: RegexChunker(r"(?<=[.;])\s+(?=\w)"),
    "sentence-bounded": lambda: SentenceChunker(max_chars=20),
    "paragraph-bounded": lambda: ParagraphChunker(max_chars=7),
    "markdown-bounded": lambda: MarkdownChunker(max_chars=30),
}

# CJK, emoji and combining marks, CRLF, fences and quotes left open, list markers, tables, runs
# without any boundary.
PIECES = [
    *("a", "word ", "Mr. ", "e.g. ", "3.14 ", "End. ", "What? ", "No! ", "U.S. ", "...", ". . . "),
    *(
        "日本語。",
        "はい！",
        "「引用。」",
        "é",
        "e\u0301",
        "👩‍👩‍👧",
        "؟ ",
        "। ",
        "\u2028",
        "\x1c",
        "\ufeff",
    ),
    *("\n", "\n\n", "\r\n", "\r", "\t", "  ", " \n \n", "\x0b", "\xa0"),
    *('"', "“", "”", "(", ")", "«", "[", "'", "```", "```\n", "~~~\n", "    code\n", "`"),
    *("- item\n", "1. one ", "2. two ", "1) x ", "2) y ", "a. x ", "b. y ", "• ", "# Head\n"),
    *("| a | b |\n", "|---|---|\n", "> quote\n", "<div>\n", "<!--", "-->\n", "===\n", "---\n"),
    *("{", "}", "[", "]", '{"a": ', '"b": ', ",", ": ", "1", "-2.5e3", "true", "null", "01", "\\"),
    *('"c\\u00e9\\"d"', '{"k": [1, {"l": null}]}', "f(x)[0]", "```json\n"),
    *(*EMOJI, "Great!👩\u200d👧", "[^2"),
    *(";", "; ", "x" * 50, "[a]: /u\n", ":", "http://a.b/c?d. "),
]
texts = st.one_of(st.lists(st.sampled_from(PIECES), max_size=30).map("".join), st.text(max_size=60))


TOKENS = ["word ", "aaaa", "Mr. ", "3.14 ", "- x\n", "“a. b ", "```\n\n", '"a b', "{", "[[1"]


def cut(chunker, deltas):
    chunks = []
    for delta in deltas:
        chunks += chunker.feed(delta)
    return chunks + chunker.flush()


def sliced(text, sizes):
    """The text in deltas of these sizes, over and over."""
    deltas, start = [], 0
    while start < len(text):
        size = sizes[len(deltas) % len(sizes)]
        deltas.append(text[start : start + size])
        start += size
    return deltas


@pytest.mark.parametrize("name", CHUNKERS)
@given(text=texts, sizes=st.lists(st.integers(1, 12), min_size=1, max_size=8))
@example(text='He said "Hi. Bye', sizes=[1])
@example(text="a\r\n\r\nb", sizes=[2])
@example(text='{"a": 1word ', sizes=[6])
@example(text='{"a": null.5, "b": 01}', sizes=[1])
@example(text="word [-2.5e31. one ", sizes=[1])
@example(text="Great!👩\u200d👩\u200d👧 Next one.", sizes=[10])
@example(text="Great.[12] Next one.", sizes=[8])
@settings(max_examples=150)
def test_the_same_chunks_however_the_text_is_sliced_each_verbatim(name, text, sizes):
    make = CHUNKERS[name]
    assert cut(make(), sliced(text, sizes)) == cut(make(), [text])
    check_chunker(make, [text])


@pytest.mark.parametrize("name", [name for name in CHUNKERS if "bounded" in name])
@given(text=texts)
@example(text="word       code\n")  # an indent as long as a chunk may be
@settings(max_examples=100)
def test_max_chars_bounds_every_chunk(name, text):
    chunker = CHUNKERS[name]()
    assert all(len(chunk.text) <= chunker._max_chars for chunk in cut(chunker, list(text)))


@pytest.mark.parametrize("name", [name for name in CHUNKERS if "bounded" not in name])
def test_cost_is_linear_even_where_no_boundary_comes(name):
    check_chunker_cost(CHUNKERS[name], TOKENS)


@pytest.mark.parametrize("name", CHUNKERS)
@pytest.mark.parametrize("delta", [None, b"bytes", 7])
def test_what_is_no_text_is_a_clear_error(name, delta):
    with pytest.raises(DeltaTypeError, match="where text is expected"):
        CHUNKERS[name]().feed(delta)


@pytest.mark.parametrize("max_chars", [0, -1])
def test_a_bound_below_one_is_refused(max_chars):
    with pytest.raises(UsageError, match="at least 1"):
        WordChunker(max_chars=max_chars)


def test_a_pattern_that_is_none_is_refused():
    with pytest.raises(UsageError, match="not a regular expression"):
        RegexChunker("(")


def test_chunker_errors_are_in_the_tree():
    from streamval.errors import StreamvalError

    assert issubclass(ChunkerError, StreamvalError)


def test_fuzzed_slicings_make_no_difference():
    for seed in range(3000):
        assert chunker_difference(random.Random(seed)) is None, f"seed {seed}"
