"""Tests of `streamval.chunkers.markdown`."""

import pytest

from streamval.chunkers import MarkdownChunker


def blocks(text, step=1):
    chunker = MarkdownChunker()
    chunks = []
    for start in range(0, len(text), step):
        chunks += chunker.feed(text[start : start + step])
    return [chunk.text for chunk in chunks + chunker.flush()]


def test_blocks():
    text = """\
# Title

A paragraph
in two lines.

- one
- two

  still two

| a | b |
|---|---|
| 1 | 2 |

> quoted

```python
x = 1

y = 2
```
After.
"""
    assert blocks(text) == [
        "# Title",
        "A paragraph\nin two lines.",
        "- one\n- two\n\n  still two",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "> quoted",
        "```python\nx = 1\n\ny = 2\n```",
        "After.",
    ]


def test_an_unclosed_fence_is_one_chunk():
    assert blocks("```\na\n\n# no heading\n\nb\n") == ["```\na\n\n# no heading\n\nb"]


def test_a_block_is_there_as_soon_as_its_end_is_certain():
    chunker = MarkdownChunker()
    assert [c.text for c in chunker.feed("# Title\n")] == ["# Title"]
    assert [c.text for c in chunker.feed("A paragraph.\n")] == []
    assert [c.text for c in chunker.feed("\n")] == ["A paragraph."]
    assert [c.text for c in chunker.feed("```\ncode\n```\n")] == ["```\ncode\n```"]
    assert [c.text for c in chunker.feed("- item\n\n")] == []  # the list may go on
    assert [c.text for c in chunker.feed("Next.\n")] == ["- item"]


def test_text_that_is_no_block_is_not_lost():
    assert blocks("[a]: /url\n\nText.\n") == ["[a]: /url\n\nText."]


@pytest.mark.parametrize("unit", ["\n", "> \n", "* \n", "`\n", "|\n", "[a]: b\n", "[", "\\\\\n"])
@pytest.mark.slow
def test_no_text_costs_more_than_linear(unit):
    """Quadratic, it would take minutes: the test would time out."""
    chunker = MarkdownChunker()
    for _ in range(20_000):
        chunker.feed(unit)
    chunker.flush()
