"""Tests of `streamval.requirements.privacy`."""

import json

import pytest

import streamval as sv
from streamval.errors import UsageError
from tests.support.requirements import failing, on_the_whole, passing, run_of


@pytest.mark.parametrize("chunking", ["word", None, "sentence"])
@pytest.mark.parametrize(
    ("leak", "kind"),
    [
        ("4111 1111 1111 1111 123", "a payment card number"),
        ("4111111111111111 12/27 CVV 123", "a payment card number"),
        ("2 4111-1111-1111-1111", "a payment card number"),
        ("4111 1111 1111 1111 " + "7 " * 30, "a payment card number"),
        ("AB12 DE89 3704 0044 0532 0130 00", "an IBAN"),
    ],
)
async def test_a_number_beside_other_numbers_is_found(leak, kind, chunking):
    result = await run_of(sv.no_personal_data(), f"Pay with {leak} today. Or not.", chunking)
    assert result.failures[0].reason == f"it contains {kind}"
    assert "1111" not in result.text
    assert "0532" not in result.text


@pytest.mark.parametrize(
    "text", ["Install react@18.2.0 now.", "See image@2x.png there.", "foo@1.2.3", "a@b and @c.d"]
)
async def test_what_only_looks_like_an_address(text):
    assert (await run_of(sv.no_personal_data(), text)).success


@pytest.mark.parametrize("make", [sv.no_personal_data, lambda: sv.allowed_hosts(["a.org"])])
@pytest.mark.parametrize("unit", ["deadbeef", "a1b2", "1", "a.", "x-", "001-", "ab12", "7-"])
async def test_a_word_of_any_length_is_read_once(make, unit):
    """Read again for each character, it would take ten minutes: the test would time out."""
    text = "data " + unit * (80_000 // len(unit)) + " and more" * 20
    assert (await run_of(make(), text, size=4000)).success


CARD = "4111 1111 1111 1111"


IBAN = "DE89 3704 0044 0532 0130 00"


KEY = "AKIAIOSFODNN7EXAMPLE"


TOKEN = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize("chunking", [None, "word", "sentence"])
@pytest.mark.parametrize(
    ("requirement", "leak", "reason"),
    [
        (sv.no_secrets, KEY, "a secret (aws access token)"),
        (sv.no_secrets, TOKEN, "a secret (github pat)"),
        (sv.no_secrets, "-----BEGIN RSA PRIVATE KEY----- MIIE", "a secret (private key)"),
        (sv.no_personal_data, "ann@example.org", "an e-mail address"),
        (sv.no_personal_data, CARD, "a payment card number"),
        (sv.no_personal_data, IBAN, "an IBAN"),
        (sv.no_personal_data, "+49 30 901820", "a telephone number"),
    ],
)
async def test_nothing_of_a_leak_is_delivered(requirement, leak, reason, chunking, size):
    text = f"Here it is: {leak} and keep it safe. Bye now."
    delivered, said, _ = await failing(requirement(), text, chunking=chunking, size=size)
    assert said == f"it contains {reason}"
    assert leak[:8].strip() not in delivered
    assert not await on_the_whole(requirement(), text)


ESCAPED = "".join(f"\\u{ord(char):04x}" for char in TOKEN[:8]) + TOKEN[8:]


@pytest.mark.parametrize("chunking", [None, "word", "sentence", "json"])
@pytest.mark.parametrize(
    "written",
    [
        *(TOKEN.replace("_", "\\_"), f"**{TOKEN[:9]}**{TOKEN[9:]}", TOKEN.replace("_", "&#95;")),
        *(f"<b>{TOKEN[:9]}</b>{TOKEN[9:]}", f'```json\n{{"key": "{ESCAPED}"}}\n```', ESCAPED),
        *(f'Here: {{"a": 1}} {{"key": "{ESCAPED}"}}', f'{{"{ESCAPED}": 1}}', f'[{{"a": ["{ESCAPED}"]}}]'),
        f'{{"in": {json.dumps(json.dumps({"a": "@"})).replace("@", ESCAPED)}}}',
    ],
)  # fmt: skip
async def test_a_key_is_found_as_it_is_read_and_as_json_means_it(written, chunking):
    text = f"Take this: {written} and keep it."
    delivered, reason, _ = await failing(sv.no_secrets(), text, chunking=chunking, size=5)
    assert reason == "it contains a secret (github pat)"
    assert TOKEN[12:] not in delivered
    assert not await on_the_whole(sv.no_secrets(), text)


NUMBERS = [
    *("+1 (202) 456-1414", "+1 202 - 456 - 1414", "+49 30 / 901820", "+44 (0) 20 7946 0018"),
    *("0049 30 901820", "+1 – 202 – 456 – 1414", "(+49) 30 90 18 20", "+１ ２０２ ４５６ １４１４"),
    *("4111.1111.1111.1111", "4111 – 1111 – 1111 – 1111", "４１１１ １１１１ １１１１ １１１１"),
    *("4111 · 1111 · 1111 · 1111", "4111\u200b1111\u200b1111\u200b1111", "٤١١١ ١١١١ ١١١١ ١١١١"),
    *("**4111** **1111** **1111** **1111**", "4111\u00a01111\u00a01111\u00a01111"),
    *(" - ".join("4111111111111111"), "DE89 " + " ".join("370400440532013000")),
    *("DE89 - " + " - ".join("370400440532013000"), "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1"),
    *(
        "4111, 1111, 1111, 1111",
        "4111:1111:1111:1111",
        "4111; 1111; 1111; 1111",
        "`4111` `1111` `1111` `1111`",
    ),
    *("[4111] [1111] [1111] [1111]", "(4111)(1111)(1111)(1111)", '"4111" "1111" "1111" "1111"'),
    *(
        "4111 1111-1111, 1111",
        "41111111 11111111",
        "41111111-11111111",
        "4,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1",
    ),
    *(
        "DE89, 3704, 0044, 0532, 0130, 00",
        "`DE89` `3704` `0044` `0532` `0130` `00`",
        "_DE89370400440532013000_",
    ),
    *(
        '"DE89", "3704", "0044", "0532", "0130", "00"',
        "DE89:3704;0044 0532/0130-00",
        "4111\\_1111\\_1111\\_1111",
    ),
    *("3782, 822463, 10005", "&#52;111 1111 1111 1111", "4111<b>1111</b>1111<i>1111</i>"),
    *("de89 3704 0044 0532 0130 00", "De89-3704-0044-0532-0130-00", "gb82west12345698765432"),
    "D-E-8-9-" + "-".join("370400440532013000"),
    *("[35,4111111111111111]", "1,35,4111111111111111,12/27", "<b>4111</b> <b>1111</b> 1111 1111"),
    *(
        '<b class="x">4111</b> <b class="x">1111</b> <i>1111</i> 1111',
        "(00) 49 30 901820",
        "00-49-30-901820",
    ),
]
BEHIND_OTHERS = [
    *("In 2024 4111 1111 1111 1111 was used", "12/2025 4111 1111 1111 1111", "| 2024 | 4111 1111 1111 1111 |"),
    *("Order 1234 - 5500-0000-0000-0004", "5 4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", "账号DE89370400440532013000谢谢"),
    "DE 89 3704 0044 0532 0130 00",
    *("Write to bob@example.com—she will answer", "bob@example.com-or call", "bob@example.com" + "好" * 30),
]  # fmt: skip


@pytest.mark.parametrize("text", BEHIND_OTHERS)
async def test_what_stands_beside_it_does_not_hide_it(text):
    await failing(sv.no_personal_data(), f"Yes: {text}. Bye.", chunking="word")
    assert not await on_the_whole(sv.no_personal_data(), text)


@pytest.mark.parametrize(
    "text", ["It is 0.4111111111111111 or 3,4111111111111111.", "x = 1.4111111111111111"]
)
async def test_a_decimal_number_is_no_card(text):
    await passing(sv.no_personal_data(), text)


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("chunking", [None, "word", "sentence"])
@pytest.mark.parametrize("number", NUMBERS)
async def test_nothing_of_a_number_is_delivered_however_it_is_written(number, chunking, size):
    text = f"Yes, it is: {number} and that is all. Bye now."
    requirement = sv.no_personal_data()
    delivered, _, _ = await failing(requirement, text, chunking=chunking, size=size)
    assert "Yes, it is:".startswith(delivered.strip())
    assert not await on_the_whole(requirement, text)


@pytest.mark.parametrize("chunking", ["word", sv.chunkers.SentenceChunker(max_chars=20)])
async def test_a_key_that_a_limit_cuts_in_two_is_found_in_time(chunking):
    text = f"Here is the whole of it: {TOKEN} and more of it. Bye."
    delivered, _, _ = await failing(sv.no_secrets(), text, chunking=chunking)
    assert "ghp" not in delivered


@pytest.mark.parametrize("chunking", [None, "word", "sentence"])
@pytest.mark.parametrize(
    "text",
    [
        "Between 1990 and 2024 (34 years) it grew by 12 - 15 %, from 3.5 to 12.75 million.",
        "Add 1 + 2 + 3 + (4) = 10, or 10 / 2 - 3 * 4. In 2024 the quick brown fox jumped.",
        "Id 550e8400-e29b-41d4-a716-446655440000, at 12:30:45 on 2024-01-31 from 192.168.100.200.",
        "Use the placeholder ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx for now. Thank you.",
        "It is supercalifragilisticexpialidocious, https://example.org/some/long/path-to-it?x=1.",
        "In 2024 there were 15 of them, at 4111 1111 1111 1112 metres.",
        "Version 3.12.1, commit 9f86d081884c7d65. Write to us at once.",
        "The answer is 42",
        "GB and US are countries. DE too.",
    ],
)
async def test_what_is_no_leak_passes_whole(text, chunking):
    await passing(sv.no_personal_data("US"), text, chunking=chunking)
    await passing(sv.no_secrets(), text, chunking=chunking)


async def test_a_region_tells_its_own_numbers():
    text = "Call (415) 555-2671 today. Or not."
    await passing(sv.no_personal_data(), text)
    assert (await failing(sv.no_personal_data("US"), text))[1] == "it contains a telephone number"
    with pytest.raises(UsageError, match="'Germany'"):
        sv.no_personal_data("Germany")


def test_the_reason_never_tells_the_secret_and_the_prompt_not_the_rule():
    for requirement in (sv.no_secrets(), sv.no_personal_data()):
        assert requirement.check_only


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
    *("https://example.org／@evil.com/x", "https://example.org＃@evil.com", "![a](https://example.org？q@evil.com/x)"),
    *(r"[a](https://example.org\)@evil.com/x)", "https://example.org'@evil.com/x", "https://example.org)@evil.com/x"),
    *('<https://example.org"@evil.com/x>', "https://example.org”@evil.com"),
    *("<img alt=x src=//evil%2ecom>", "<img alt=x src=//evil。com>", '<img srcset="/a.png 1x, //evil%2ecom 2x">'),
    *('<img title="' + "so " * 80 + '" src="/\n/evil.com/x">', '<a title="x" style="background:url(//evil.com/x)">'),
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
    "unit", ["<a ", "](", "]:", '="', "='", "//a.b ", "&", "\\", "<a=", "http:", "<a '", "<a //b "]
)
async def test_links_are_looked_for_in_linear_time(unit):
    rule = sv.allowed_hosts(["a.b"])
    text = unit * (200_000 // len(unit))  # quadratic, it would time out
    await on_the_whole(rule, text)
    await run_of(rule, text[:20_000], size=4000)


async def test_allowed_links_pass():
    text = "See https://example.org/a, https://docs.example.org:8080/x?y and a/b. // done"
    await passing(sv.allowed_hosts(["example.org", "done"]), text.replace("//  done", ""))
    text = 'If a <b and c> d = "//x", see ["https://example.org","https://example.org/b"] there.'
    await passing(sv.allowed_hosts(["example.org"]), text)


@pytest.mark.parametrize(
    "written",
    [
        "请访问https://evil.com吧",
        "<img alt=x src=//1.2.3.4/a>",
        "<img alt=x src=//localhost>",
        "@import '//1.2.3.4/a'",
    ],
)
async def test_a_host_without_a_name_is_another_host(written):
    await failing(sv.allowed_hosts(["example.org"]), f"Look: {written} it is.", chunking="word")


def test_a_host_is_a_host():
    with pytest.raises(UsageError, match="needs hosts"):
        sv.allowed_hosts(["https://example.org/x"])
