"""Tests of `streamval.structured.json_schema.patterns`."""

import pytest

from streamval.structured.json_schema.patterns import matcher


@pytest.mark.parametrize(
    ("pattern", "found", "other"),
    [
        (r"^[\w-\.]+@([\w-]+\.)+[\w-]{2,4}$", "a.b@c-d.org", "a b@c.org"),
        (r"^(?<y>\d{4})-\k<y>$", "2024-2024", "2024-2025"),
        (r"^[^]*$", "any\nthing", None),
        (r"x[]", None, "x"),
        (r"^[^\0]+$", "x", "x\0"),
        (r"^[\b]$", "\b", "b"),
        (r"^{a}$", "{a}", "a"),
        (r"^[[]a]$", "[a]", "xa]"),
        (r"^[a-z&&b]+$", "a&b", "A"),
        (r"^a{2}$", "aa", "a{2}"),
        (r"^\<a\>$", "<a>", "a"),
        (r"^\uD83D\uDE00$", "😀", "x"),
        (r"^[\uD800-\uDBFF][\uDC00-\uDFFF]$", "😀", "x"),
        (r"^\p{L}{30}$", "é" * 30, "é" * 29),
        (r"^\/x\-y\_\z$", "/x-y_z", "/x-y_"),
        (r"^\d+$", "12", "٣"),
        ("^(?=.*[0-9])(?!x)[a-z0-9]+$", "a1", "x1"),
    ],
)
def test_patterns_mean_what_javascript_means(pattern, found, other):
    assert found is None or matcher(pattern).is_valid(found)
    assert other is None or not matcher(pattern).is_valid(other)


def test_they_are_linear_where_they_can_be_and_limited_where_they_cannot():
    assert matcher("^(a+)+$").is_valid("a" * 50 + "!") is False
    assert matcher("^(?=a)b").is_valid("ab") is False
    assert matcher("^(?=(a+)+$)").is_valid("a" * 50 + "!") is False


@pytest.mark.parametrize("pattern", ["(", "*", "[a"])
def test_what_is_no_pattern_is_said(pattern):
    with pytest.raises(ValueError, match="is not a pattern"):
        matcher(pattern)
