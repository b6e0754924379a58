"""Tests of `streamval.backends.options`."""

import pytest

from streamval.backends.options import (
    check_names,
    check_options,
    endpoint_options,
    stall_timeout_of,
)
from streamval.errors import UsageError


@pytest.mark.parametrize("wrong", [0, -1])
def test_a_stall_timeout_is_above_0(wrong):
    with pytest.raises(UsageError, match="stall_timeout must be above 0"):
        stall_timeout_of({"stall_timeout": wrong})
    assert stall_timeout_of({"stall_timeout": None}) == (None, {})


def test_what_shapes_the_output_does_not_lead_to_the_endpoint():
    options = {
        "api_base": "http://x",
        "extra_headers": {"X-Gate": "open"},
        "temperature": 0.5,
        "max_tokens": 5,
        "stop": ["."],
        "response_format": {"type": "json_object"},
        "tools": [],
    }
    assert set(endpoint_options(options)) == {"api_base", "extra_headers"}


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("temprature", "temperature"),
        ("max_token", "max_tokens"),
        ("apikey", "api_key"),
        ("frequency_penality", "frequency_penalty"),
    ],
)
def test_misspelt_names_are_refused(wrong, meant):
    with pytest.raises(UsageError, match=f"'{wrong}'; did you mean '{meant}'"):
        check_options({wrong: 1})


@pytest.mark.parametrize(
    "own", ["min_tokens", "repetition_penalty", "guided_json", "top_a", "drop_params"]
)
def test_a_providers_own_names_go_through(own):
    check_options({own: 1, "temperature": 1})


def test_where_all_names_are_known_others_are_refused():
    check_names({"seed": 1}, {"seed"})
    with pytest.raises(UsageError, match="no option 'speed'; look up its spelling"):
        check_names({"speed": 1}, {"temperature"})
