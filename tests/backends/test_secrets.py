"""Tests of `streamval.backends.secrets`: no key is shown, wherever it was given."""

import json
from base64 import b64encode
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from streamval.backends.secrets import masked, secrets_in, without_secrets

KEY = "sk-Very/Secret+key=="

PLACES = {
    "api_key": {"api_key": KEY},
    "token": {"hf_token": KEY},
    "bearer": {"extra_headers": {"Authorization": f"Bearer {KEY}"}},
    "another header": {"extra_headers": {"X-Gate": KEY}},
    "headers": {"headers": {"x": KEY}},
    "nested": {"extra_body": {"vault": [{"client_secret": KEY}]}},
    "list": {"api_keys": ["nothing", KEY]},
    "pydantic": {"api_key": SecretStr(KEY)},
    "bytes": {"api_key": KEY.encode()},
    "in a tool": {"extra_body": {"tools": [{"auth": KEY}]}},
    "signature": {"extra_query": {"sig": KEY}},
    "address": {"api_base": f"https://example.org/v1?key={quote(KEY, safe='')}"},
}

ECHOES = {
    "plain": lambda key: key,
    "in a word": lambda key: f"<{key}>",
    "upper case": str.upper,
    "in a URL": lambda key: "https://x/?key=" + quote(key, safe=""),
    "in JSON": json.dumps,
    "in a path": quote,
    "in base 64": lambda key: b64encode(key.encode()).decode(),
    "as a user": lambda key: f"https://{quote(key, safe='')}:x@host/",
    "cut short": lambda key: key[:15] + "…",
}


@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
@pytest.mark.parametrize("options", PLACES.values(), ids=PLACES)
def test_no_echo_shows_a_key(options, echo):
    said = without_secrets(f"no such key: {echo(KEY)} (401)", options)
    assert "ery" not in said.replace("very", "").lower().replace("query", "")
    assert said.startswith("no such key: ")
    assert said.endswith("(401)")
    assert KEY not in repr(masked(options))


def test_a_key_of_the_environment_is_hidden(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG")
    monkeypatch.setenv("SOME_PATH", "/usr/local/bin")
    text = "wJalrXUtnFEMI/K7MDENG is not /usr/local/bin"
    assert without_secrets(text) == "*** is not /usr/local/bin"


def test_what_is_no_key_stays():
    options = {"max_tokens": 4096, "seed": 1, "stop": ["4096"], "api_key": "abc"}
    assert without_secrets("4096 abc", options) == "4096 abc"  # three letters are no key
    assert masked({"stop": [1], "max_tokens": 5}) == {"stop": [1], "max_tokens": 5}


@pytest.mark.parametrize(
    "said",
    [
        *("401 for https://x/?key={}&y=1", "Authorization: Bearer {}", "{{'api_key': '{}'}}"),
        *(
            '"x-api-key": "{}"',
            "password = {}",
            "Bearer {}",
            "AWS_SECRET_ACCESS_KEY={}",
            "sk-proj-{}",
        ),
        *("authorization: Basic {}", "glpat-{}", "client_secret: {}"),
    ],
)
def test_a_key_that_nobody_has_named_is_known_by_what_stands_before_it(said):
    assert "zyxw9876" not in without_secrets(said.format("abcd1234zyxw9876"))


@pytest.mark.parametrize(
    "said",
    [
        "unexpected token: hello",
        "max_tokens=4096",
        "the secret: nobody",
        "bearer of news",
        "a key: C",
    ],
)
def test_words_about_keys_stay(said):
    assert without_secrets(said) == said


@given(st.text(), st.text(min_size=4), st.text())
def test_no_key_is_left_in_any_text(before, key, after):
    assert key not in without_secrets(before + key + after, {"api_key": key}).replace("***", "\0")


@pytest.mark.parametrize("unit", ["a-", "sk-", "api", "key=", "bearer ", "token"])
def test_a_long_message_is_searched_in_linear_time(unit):
    without_secrets(unit * (500_000 // len(unit)))  # quadratic, it would time out


def test_the_longer_of_two_keys_goes_first():
    assert without_secrets("ab12cd and ab12", {"key": "ab12", "token": "ab12cd"}) == "*** and ***"
    assert secrets_in({"x": None, "key": None}) == []
