"""Tests of `streamval.serve.configuration`: what the file may say, and what of it cannot work."""

import pytest
from pydantic import ValidationError

import streamval as sv
from streamval.errors import UsageError
from streamval.requirements import no_clipping
from streamval.requirements.by_name import requirement_of
from streamval.serve.configuration import Configuration, ServerSettings, problems_in

sound = no_clipping()
NOT_CALLABLE = 7


class Broken(sv.Requirement):
    """Cannot be made."""

    def __init__(self):
        raise ValueError("no")


def configuration(*requirements, upstream="a", **model):
    return Configuration.model_validate(
        {
            "upstreams": {"a": {"model": "openai/m"}},
            "models": {"b": {"upstream": upstream, "requirements": requirements, **model}},
        }
    )


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("no_secrets", "NoLeak"),
        ({"word_limit": {"at_most": 5}}, "Limit"),
        ({"judge": "Be polite."}, "LLMaJRequirement"),
        ({"python": "tests.serve.test_configuration:sound"}, type(sound).__name__),
    ],
)
def test_requirements_as_the_file_writes_them(written, kind):
    assert type(requirement_of(written)).__name__ == kind


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ({"python": "no_such_module:x"}, "no_such_module cannot be imported: ModuleNotFoundError"),
        ({"python": "tests.serve.test_configuration:Broken"}, "raised ValueError: no"),
        ({"python": "tests.serve.test_configuration:NOT_CALLABLE"}, "neither a Requirement nor"),
        ({"a": 1, "b": 2}, "one requirement per entry"),
    ],
)
def test_requirements_that_are_none(written, says):
    with pytest.raises(UsageError, match=says):
        requirement_of(written)


def test_each_problem_is_told_once_and_where_it_is():
    hears = {"python": "tests.serve.test_configuration:sound"}
    made = configuration(hears, "no_secretz", "no_secrets", upstream="c", judge_upstream="d")
    model = ("models", "b")
    places, reasons = zip(*problems_in(made), strict=True)
    assert places == (
        (*model, "upstream"),
        (*model, "judge_upstream"),
        (*model, "requirements", 0),
        (*model, "requirements", 1),
    )
    for why, says in zip(
        reasons, ("'c' is no", "'d' is no", "judges sound", "no_secretz"), strict=True
    ):
        assert says in why


@pytest.mark.parametrize(
    ("model", "refused"),
    [
        ({"repair": {"loop_budget": 3}}, True),
        ({"repair": {"loop_budget": 3, "mode": "restart"}}, True),
        ({"repair": {"loop_budget": 3, "mode": "ask"}}, False),
        ({"repair": {"loop_budget": 3}, "release": "all"}, False),
        ({"repair": {"loop_budget": 1}}, False),
        ({"chunking": None}, False),
        ({}, False),
    ],
)
def test_a_repair_that_would_take_back_what_was_sent_is_refused(model, refused):
    found = [place for place, _ in problems_in(configuration(**model))]
    assert found == ([("models", "b", "release")] if refused else [])


def test_without_keys_only_loopback_is_served():
    with pytest.raises(ValidationError, match="without keys it serves loopback only"):
        ServerSettings(host="0.0.0.0")
    assert ServerSettings(host="0.0.0.0", keys=["sk-12345678"]).host == "0.0.0.0"


def test_rules_need_more_to_judge_than_a_delta():
    places = [place for place, _ in problems_in(configuration("no_secrets", chunking=None))]
    assert places == [("models", "b", "chunking")]
    assert not [*problems_in(configuration("no_secrets", chunking=None, release="all"))]
