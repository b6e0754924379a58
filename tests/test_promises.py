"""The page of promises is true: each example in its tables is judged as it says."""

import re
from pathlib import Path

import pytest

import streamval as sv
from tests.support.requirements import judged, on_the_whole

PAGE = (Path(__file__).parents[1] / "docs/promises.md").read_text()
RULES = {
    "forbidden_words": lambda: sv.forbidden_words(["acme", "acme corp"]),
    "no_secrets": sv.no_secrets,
    "no_personal_data": sv.no_personal_data,
    "allowed_hosts": lambda: sv.allowed_hosts(["example.org"]),
}
EXAMPLES = [
    (rule, text.replace("\\x1f", "\x1f"), kind)
    for rule, section in re.findall(
        r"^## `(\w+)\(.*?\)`$(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL
    )
    for text, kind in re.findall(r"^\| `(.*)`(?: \(.*\))? \| (.*) \|$", section, re.MULTILINE)
]


def test_the_page_has_examples_of_each_rule():
    assert {rule for rule, _, _ in EXAMPLES} == set(RULES)
    assert {kind for _, _, kind in EXAMPLES} == {"promised", "expected", "not promised"}


@pytest.mark.parametrize("chunking", [None, "word", "sentence"])
@pytest.mark.parametrize(("rule", "text", "kind"), EXAMPLES)
async def test_an_example_is_judged_as_the_page_says(rule, text, kind, chunking):
    requirement = RULES[rule]()
    success, delivered, _, _ = await judged(requirement, text, chunking=chunking)
    assert success == (kind == "not promised")
    assert bool(await on_the_whole(requirement, text)) == success
    if kind == "promised":
        assert not any(
            found in delivered for found in ("cme", "ghp", "PRIVATE", "1111", "0400", "evil", "bob")
        )
