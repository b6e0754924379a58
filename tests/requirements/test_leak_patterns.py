"""Tests of `streamval.requirements.leak_patterns`."""

import random
import string
import sys

import pytest

from streamval.errors import UsageError
from streamval.requirements import no_personal_data
from streamval.requirements.leak_patterns import PersonalData, key_finder, normalised
from streamval.testing import judge
from tests.benchmarks import leaks

ALL = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
rng = random.Random(7)


def some(count, letters=ALL):
    return "".join(rng.choices(letters, k=count))


# Of today's shapes: https://docs.github.com, https://platform.openai.com, and so on.
KEYS = {
    "openai api key": f"sk-proj-{some(74)}T3BlbkFJ{some(74)}",
    "anthropic api key": f"sk-ant-api03-{some(93)}AA",
    "gcp api key": f"AIza{some(35)}",
    "github fine grained pat": f"github_pat_{some(22)}_{some(59)}",
    "github pat": f"ghp_{some(36)}",
    "npm access token": f"npm_{some(36)}",
    "huggingface access token": f"hf_{some(34, string.ascii_letters)}",
    "digitalocean pat": f"dop_v1_{some(64, HEX)}",
    "aws access token": f"AKIA{some(16, string.ascii_uppercase)}",
    "stripe access token": f"sk_live_{some(24)}",
    "gitlab pat": f"glpat-{some(20)}",
    "slack bot token": f"xoxb-123456789012-1234567890123-{some(24)}",
    "generic credential uri": "https://ann:correct-horse@example.org/x",
}
AROUND = ["{}", "{}.", "({})", "`{}`,", "key={}", '"{}"', "**{}**", "<{}>"]


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize(("kind", "key"), KEYS.items(), ids=KEYS)
def test_todays_keys_are_found_whatever_stands_around_them(kind, key, around):
    assert key_finder()(f"It is {around.format(key)} indeed") == f"a secret ({kind})"


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_a_key_is_found_whatever_it_is_spelled_with(key):
    odd = key.replace("a", "ａ").replace("1", "\u200b1").replace("-", "‐")
    assert key_finder()(normalised(odd))


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN PRIVATE KEY----- MIIE",
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----",
    ],
)
def test_private_keys(text):
    assert key_finder()(text) == "a secret (private key)"


@pytest.mark.parametrize(
    "text",
    [
        *("-----BEGIN PUBLIC KEY-----", "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "sk-proj-…"),
        *("9f86d081884c7d659a2feaa0c55ad015", "internationalisation", "https://example.org/a:b@c"),
        *("550e8400-e29b-41d4-a716-446655440000", "AKIA", "sk-", "SKATEBOARDINGCHAMPIONSHIPS"),
    ],
)
def test_what_is_no_key(text):
    assert key_finder()(text) is None


@pytest.mark.parametrize("unit", ["sk-", "eyJ", "ghp_", "AKIA", "a.", "x-", "A", "xoxb-", "://a:b"])
def test_a_word_of_any_length_is_searched_in_linear_time(unit):
    assert key_finder()(unit * (400_000 // len(unit))) is None  # quadratic, it would time out


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("4111.1111.1111.1111", "a payment card number"),
        ("378282246310005", "a payment card number"),
        ("DE89370400440532013000", "an IBAN"),
        ("nl91 abna 0417 1643 00", "an IBAN"),
        ("call 0044 20 7946 0018", "a telephone number"),
        ("ann@example.org", "an e-mail address"),
        ("4111 1111 1111 1112", None),
        ("DE89370400440532013001", None),
        ("in2024 there was nothing at all here", None),
        ("100 200 300 400 500 600 700", None),
        ("IBANDE89370400440532013000", "an IBAN"),
        ("__ann@example.org__", "an e-mail address"),
        ("ann@example.xn--p1ai", "an e-mail address"),
        ("**+49** **30** **901820**", "a telephone number"),
        ("4111|1111|1111|1111", "a payment card number"),
        ("4111/1111/1111/1111", "a payment card number"),
        ("git@github.com:python/cpython.git", None),
        ("3.141592653589793 and 2.718281828459045 and 0.4242424242424242", None),
        ("Lap times: 12.41 12.55 12.38 12.60 12.47 12.52 12.39", None),
        ("Count: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20", None),
        ("2024-01-31 2024-02-28 2024-03-31 2024-04-30 2024-05-31 2024-06-30", None),
        ("192.168.100.200 10.20.30.40 172.16.254.1 8.8.8.8", None),
    ],
)
def test_personal_data(text, kind):
    assert PersonalData(None)(text) == kind


@pytest.mark.parametrize(
    "number",
    [
        "3782 8224 6310 005",  # American Express and Diners, in fours
        "3056 9309 0259 04",
        "4222 222 222 222",  # thirteen digits
        "4222-2222-2222-2",
        "BE68 5390 0754 7034",  # of SWIFT's registry; its bank is not in Belgium's
    ],
)
def test_numbers_in_other_groups_than_those_on_the_card(number):
    assert not judge(no_personal_data(), f"It is {number} now.").success


def test_the_corpus_of_the_page_on_leaks_is_found_and_raises_no_alarm():
    rows = list(leaks.corpus(1))
    for row, found in zip(rows, leaks.ours(rows), strict=True):
        assert found == {name: name == row["group"] for name in ("secret", "personal")}, row


def test_numbers_are_seldom_taken_for_cards():
    """One in ten numbers has the right check digit: so it has to look like a card's as well."""
    find = PersonalData(None)
    texts = [
        lambda: " ".join(f"{rng.uniform(0, 100):.2f}" for _ in range(10)),
        lambda: " ".join(str(rng.randint(0, 100)) for _ in range(16)),
        lambda: " ".join(f"{rng.uniform(0, 100):.4f}" for _ in range(8)),
        lambda: " ".join(str(rng.randint(100, 999)) for _ in range(16)),
        lambda: " ".join(".".join(str(rng.randint(0, 255)) for _ in range(4)) for _ in range(4)),
        lambda: repr(rng.random()),
    ]
    for make in texts:
        assert sum(find(make()) is not None for _ in range(300)) <= 3


def test_dates_and_isbns_of_a_region_are_no_telephone_numbers():
    find = PersonalData("DE")
    assert find("05-06-2023") is None
    assert find("ISBN 978-3-16-148410-0") is None
    assert find("030 901820") == "a telephone number"


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ("４１１１", "4111"),
        ("٣ ३ 3", "3 3 3"),
        ("1–2—3−4‑5", "1-2-3-4-5"),
        ("a\u200bb\u2060c\u00add", "abcd"),
        ("ａ＠ｂ．ｏｒｇ", "a@b.org"),
        ("naïve – ok", "naïve - ok"),
    ],
)
def test_one_spelling_for_what_looks_the_same(given, plain):
    assert normalised(given) == plain


def test_the_extra_is_named_where_it_is_missing(monkeypatch):
    key_finder.cache_clear()
    monkeypatch.setitem(sys.modules, "kingfisher_sdk", None)
    monkeypatch.setitem(sys.modules, "stdnum", None)
    with pytest.raises(UsageError, match=r"no_secrets\(\) needs an extra"):
        key_finder()
    with pytest.raises(UsageError, match=r"no_personal_data\(\) needs an extra"):
        PersonalData(None)
