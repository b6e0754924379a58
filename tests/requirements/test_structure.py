"""Tests of `streamval.requirements.structure`."""

import pytest

import streamval as sv
from tests.support.requirements import failing, on_the_whole, passing, run_of


@pytest.mark.parametrize("code", ["+".join(["1"] * 20000), "-" * 20000 + "1", "(" * 300])
async def test_python_that_nests_too_deep_fails(code):
    result = await run_of(sv.valid_python(), f"```python\nx = {code}\n```\n\nDone.", size=5000)
    assert "does not parse" in result.failures[0].reason


@pytest.mark.parametrize(
    "text",
    [
        "1. ```sh\n   ls\n   ```\n2. b\n",
        "1. Run:\n    ```yaml\n    - a\n    * b\n    ```\n2. Done\n",
        "| a | b |\n|---|---|\n| x | y |\n\n| a | b | c |\n|---|---|---|\n| x | y | z |\n",
        "- a\n- b\n\n* * *\n\n- c\n",
        "- a\r\n- b\r\n\r\n| a |\r\n|---|\r\n| b |\r\n",
    ],
)
@pytest.mark.parametrize("size", [1, 5, 1000])
async def test_markdown_that_is_well_formed(text, size):
    result = await run_of(sv.readable_markdown(), text, "line", size)
    assert result.success, result.failures


async def test_python_is_judged_when_its_fence_closes():
    good = "Run this:\n\n```python\nprint('a')\n```\n\n"
    bad = "```py\nprint('a'\n```\n\n"
    await passing(sv.valid_python(), good + "```js\nlet = = 1\n```\n\nDone.")
    _, reason, written = await failing(sv.valid_python(), good + bad + "More text. " * 99)
    assert "does not parse: '(' was never closed in line 1" in reason
    assert written < len(good + bad) + 40
    assert not await on_the_whole(sv.valid_python(), good + bad)


async def test_a_held_block_is_never_shown_broken():
    text = "Run this:\n\n```python\ndef f(:\n    pass\n```\n\nDone. All done."
    delivered, _, _ = await failing(sv.valid_python(hold=True), text, chunking="line")
    assert "def f" not in delivered


GOOD_MARKDOWN = r"""Facts:

1. one
2. two
   - a
   - b
3. three

* x
* y

| a | b |
|---|:-:|
| 1 | `x \| y` |

```text
| not | a table
- x
* y
```

1. again
1. again
"""


async def test_good_markdown_passes():
    await passing(sv.readable_markdown(), GOOD_MARKDOWN, chunking="line")
    assert await on_the_whole(sv.readable_markdown(), GOOD_MARKDOWN)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1. a\n2. b\n4. c\n", "goes on with 4 after 2"),
        ("- a\n* b\n", "goes on with '*' after '-'"),
        ("| a | b |\n|---|---|\n| 1 |\n", "2 columns has a row of 1"),
        ("| a | b |\n| 1 | 2 |\n", "row of dashes under its head"),
        ("| a | b |\n|---|\n", "head has 2 columns, its row of dashes 1"),
    ],
)
async def test_bad_markdown_fails_at_its_line(text, reason):
    filler = "And so on, and so on.\n" * 20
    _, said, written = await failing(sv.readable_markdown(), text + filler, chunking="line")
    assert reason in said
    assert written < len(text) + 30
    assert not await on_the_whole(sv.readable_markdown(), text)


async def test_an_unclosed_fence_is_found_at_the_end():
    _, reason, _ = await failing(sv.readable_markdown(), "```\ncode\n", chunking="line")
    assert reason == "a code fence is not closed"


async def test_dashes_of_a_table_cost_linear_time():
    """32,000 of them took seven seconds, and so these would time out."""
    for line in ("-" * 1_000_000, "-" * 1_000_000 + "x", "|-" * 500_000 + "x"):
        await on_the_whole(sv.readable_markdown(), f"| a |\n{line}\n| b |")
