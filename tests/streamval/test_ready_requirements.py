"""The ready requirements: what each says, how early, and what it holds back."""

import pytest

import streamval as sv
from streamval.errors import UsageError
from tests.support.sources import Spoken

CARD = "4111 1111 1111 1111"
IBAN = "DE89 3704 0044 0532 0130 00"
KEY = "AKIAIOSFODNN7EXAMPLE"
TOKEN = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"


async def judged(requirement, text, *, chunking="sentence", size=3):
    """(success, delivered, reason, characters generated), in deltas of some characters."""
    deltas = [text[n : n + size] for n in range(0, len(text), size)]
    backend = Spoken(*deltas)
    result = await sv.Pipeline(backend, requirements=[requirement], chunking=chunking).run("go")
    reason = result.failures[0].reason if result.failures else None
    return result.success, result.text, reason, len(result.attempts[0].text)


async def failing(requirement, text, **options):
    success, delivered, reason, written = await judged(requirement, text, **options)
    assert not success
    return delivered, reason, written


async def passing(requirement, text, **options):
    success, delivered, reason, _ = await judged(requirement, text, **options)
    assert success, reason
    assert delivered == text.strip()


async def on_the_whole(requirement, text):
    return await requirement.validate(None, sv.Context().with_output(text))


# Words


async def test_required_words_pass_with_the_last_and_fail_at_the_end():
    words = sv.required_words(["Dear", "kind regards"])
    await passing(words, "DEAR Ann. I am late. Kind\nregards, Bob. And more.")
    _, reason, _ = await failing(words, "Dear Ann. I am late.")
    assert reason == 'it never says "kind regards"'


async def test_required_words_can_hold_until_they_have_come():
    delivered, _, _ = await failing(sv.required_words(["late"], hold=True), "Dear Ann. Bye. Bye.")
    assert delivered == ""


@pytest.mark.parametrize("make", [sv.required_words, sv.forbidden_words, sv.allowed_hosts])
@pytest.mark.parametrize("given", ["Dear", []])
def test_a_list_is_wanted(make, given):
    with pytest.raises(UsageError, match=make.__name__):
        make(given)


# Loops


async def test_a_loop_is_cut_in_the_middle_of_its_sentence():
    text = "It goes " + "round and round the house " * 30
    _, reason, written = await failing(sv.NoLoop(), text, chunking="word")
    assert reason == "it says 'round and round the house' again and again"
    assert written < 100


@pytest.mark.parametrize("chunking", ["sentence", "word", None])
async def test_a_loop_is_found_whatever_the_chunks(chunking):
    text = "Well. " + "I know. You know. " * 6
    assert (await failing(sv.NoLoop(), text, chunking=chunking))[1].startswith("it says 'i know")


@pytest.mark.parametrize(
    "text", ["No, no, no, no!", "The more the better, the more the merrier, the more the messier."]
)
async def test_what_is_no_loop(text):
    await passing(sv.NoLoop(), text)
    assert await on_the_whole(sv.NoLoop(), text)


async def test_a_loop_in_the_whole_output():
    assert not await on_the_whole(sv.NoLoop(), "a b c d " * 9)


def test_once_is_no_loop():
    with pytest.raises(UsageError, match="at least 2"):
        sv.NoLoop(times=1)


# Language


async def test_language_fails_once_it_is_certain():
    english = "The weather was so fine that everybody went out into the garden. "
    german = "Das Wetter war so schön, dass alle in den Garten hinausgingen. "
    await passing(sv.language("en"), english * 3)
    _, reason, written = await failing(sv.language("en"), german * 5)
    assert reason == "it is in the language 'de'"
    assert written < 2.5 * len(german)
    assert (await failing(sv.language("en", hold=True), german * 5))[0] == ""


async def test_too_little_text_gets_the_benefit_of_the_doubt():
    await passing(sv.language("en"), "OK.")
    assert await on_the_whole(sv.language("en"), "")


def test_an_unknown_language_is_refused():
    with pytest.raises(UsageError, match=r"not 'english'.*known are: .*en"):
        sv.language("english")


# Secrets and personal data, in pieces of any size


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize("chunking", [None, "word", "sentence"])
@pytest.mark.parametrize(
    ("requirement", "leak", "reason"),
    [
        (sv.no_secrets, KEY, "an AWS Access Key"),
        (sv.no_secrets, TOKEN, "a GitHub Token"),
        (sv.no_secrets, "-----BEGIN RSA PRIVATE KEY----- MIIE", "a Private Key"),
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


@pytest.mark.parametrize("chunking", [None, "word", "sentence"])
@pytest.mark.parametrize(
    "text",
    [
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


# Hosts


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


async def test_allowed_links_pass():
    text = "See https://example.org/a, https://docs.example.org:8080/x?y and a/b. // done"
    await passing(sv.allowed_hosts(["example.org", "done"]), text.replace("//  done", ""))


def test_a_host_is_a_host():
    with pytest.raises(UsageError, match="needs hosts"):
        sv.allowed_hosts(["https://example.org/x"])


# Python and Markdown


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
