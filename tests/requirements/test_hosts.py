"""Tests of `streamval.requirements.hosts`."""

import pytest

import streamval as sv
from streamval.errors import UsageError
from tests.support.requirements import failing, on_the_whole, passing, run_of

ALLOWED = [
    *(
        "[a](https://example.org)",
        "[a](/b) <img src=a.png alt='1 // 2'>",
        "[a]: https://example.org",
    ),
    *("![a](https://example.org/a.png 'b')", "<a href=mailto:ann@evil.com>", "5 &lt; 6 // 7"),
    *("See https://example.org.", "See https://example.org, and", "**https://example.org**"),
    *("Go to https://example.org! Now", "“https://example.org”", "www.example.org."),
    *("Compute 7//2 now", "x = 1 //comment", "latex a \\\\hline", "C:\\Users\\ann", "a: //x"),
    *("(https://example.org/a_(b))", "<https://example.org>", "http: nothing", "https://"),
]


@pytest.mark.parametrize("text", ALLOWED)
async def test_allowed_links_and_what_is_no_link(text):
    allowed = sv.allowed_hosts(["example.org", "www.example.org"])
    assert (await run_of(allowed, text)).success


@pytest.mark.parametrize(
    "link", ["https:evil.test", "https:/evil.test", "ftp://evil.test", "//evil.test"]
)
async def test_odd_links_are_links(link):
    result = await run_of(sv.allowed_hosts(["example.org"]), f"See {link} now.")
    assert result.failures[0].reason == "it contains a link to evil.test"


@pytest.mark.parametrize("chunking", [None, "word", "sentence"])
@pytest.mark.parametrize(
    ("link", "host"),
    [
        ("https://evil.test/x", "evil.test"),
        ("[good](https://evil.test)", "evil.test"),
        ("https://example.org@evil.test/", "evil.test"),
        ("https:\\\\evil.test", "evil.test"),
        ("//evil.test/x", "evil.test"),
        ("www.evil.test", "www.evil.test"),
        ("https://example.org.evil.test", "example.org.evil.test"),
        ("HTTPS://EVIL.test", "evil.test"),
        ("https://notexample.org", "notexample.org"),
    ],
)
async def test_a_link_to_elsewhere_is_never_delivered(link, host, chunking):
    text = f"Look at {link} now. It is good."
    delivered, reason, _ = await failing(sv.allowed_hosts(["Example.org"]), text, chunking=chunking)
    assert reason == f"it contains a link to {host}"
    assert "evil" not in delivered


LEAD_ELSEWHERE = [
    *("![x](///evil.com/a.png)", r"[x](https\://evil.com)", "https&#58;//evil.com", "<img src=//evil.com>"),
    *(r"https://example.org\@evil.com", "[x](<https:/\t/evil.com>)", "[x](/\\evil.com)", "[x](\\\\evil.com)"),
    *('<a href="/&Tab;/evil.com">', '<a href=" //evil.com">', '<img srcset="a.png 1x, //evil.com/b 2x">'),
    *('<meta http-equiv=refresh content="0;url=//evil.com">', '<p style="background:url(//evil.com/x)">'),
    *("[x]: //evil.com", "[x]: <//evil.com>", "[x]: https\\://evil.com", "<//evil.com>"),
    *('<iframe srcdoc="&lt;img src=//evil.com&gt;">', "<https://evil.com>", "https://example.org%2f@evil.com"),
    *("HtTpS:/evil.com", "https://ev\u00adil.com", "https://evil。com", "ht&#116;ps://evil.com"),
    *("[x](&#47;&#47;evil.com)", "[x](&sol;&sol;evil.com)", "<svg><image href=//evil.com>", "<img/src=//evil.com>"),
    *("<img src='//evil.com'>", "<base href=//evil.com>", "[x](https:evil.com)", "<a href=https:evil.com>"),
    *("[x]( //evil.com )", '<img alt=">" src="/&Tab;/evil.com">', '@import "//evil.com/a.css"'),
    *(r"[x](\/\/evil.com)", "![a][b]\n\n[b]: ///evil.com/x", r'{"a": "https:\/\/evil.com"}'),
    *(r'{"a": "\u0068ttps://evil.com"}', '<img alt="' + "so " * 200 + '" src=//evil.com>', "https://evil%2ecom"),
    *("<img src=//evil.com alt='" + "so " * 200 + "'>", "[ftp](ftp:\\\\evil.com)", "https://ｅｖｉｌ.com"),
]  # fmt: skip


@pytest.mark.parametrize("chunking", [None, "sentence"])
@pytest.mark.parametrize("written", LEAD_ELSEWHERE)
async def test_a_link_leads_where_it_is_followed_to(written, chunking):
    text = f"Look at this: {written} it is. Bye."
    rule = sv.allowed_hosts(["example.org"])
    delivered, reason, _ = await failing(rule, text, chunking=chunking, size=2)
    assert "evil.com" in reason
    assert "evil" not in delivered


@pytest.mark.parametrize(
    "unit", ["<a ", "](", "]:", '="', "='", "//a.b ", "&", "\\", "<a=", "http:"]
)
async def test_links_are_looked_for_in_linear_time(unit):
    rule = sv.allowed_hosts(["a.b"])
    text = unit * (200_000 // len(unit))  # quadratic, it would time out
    await on_the_whole(rule, text)
    await run_of(rule, text[:20_000], size=4000)


async def test_allowed_links_pass():
    text = "See https://example.org/a, https://docs.example.org:8080/x?y and a/b. // done"
    await passing(sv.allowed_hosts(["example.org", "done"]), text.replace("//  done", ""))


def test_a_host_is_a_host():
    with pytest.raises(UsageError, match="needs hosts"):
        sv.allowed_hosts(["https://example.org/x"])
