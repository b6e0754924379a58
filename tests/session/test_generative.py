"""Tests of `streamval.session.generative`."""

import json
from typing import Literal

import pytest
from pydantic import BaseModel

import streamval as sv
from streamval import generative, start_session
from streamval.errors import OutputTypeError, UsageError
from tests.support.requirements import letter
from tests.support.sources import Spoken


@generative
def sentiment(text: str) -> Literal["positive", "negative"]:
    """Classify the sentiment of the text."""


@generative
async def words(text: str, limit: int = 3) -> list[str]:
    """The longest words."""


class City(BaseModel):
    name: str
    people: int


@generative
def city(country: str) -> City:
    """A city."""


def says(*results):
    return start_session(Spoken(*([json.dumps({"result": result})] for result in results)))


short = sv.req("short", sv.simple_validate(lambda text: (len(text) < 20, f"{len(text)} is long")))


def test_a_typed_result():
    m = says("positive")
    assert sentiment(m, text="I love it!") == "positive"
    prompt = m.backend.requests[0].messages[0].content
    assert "def sentiment(text: str)" in prompt
    assert "Classify the sentiment" in prompt
    assert "text = 'I love it!'" in prompt
    assert m.backend.requests[0].format.model_json_schema()["properties"]["result"]["enum"]


async def test_an_async_one():
    assert await words(says(["a", "b"]), text="a b") == ["a", "b"]


def test_a_model():
    assert city(says({"name": "Rome", "people": 3}), country="Italy") == City(name="Rome", people=3)


def test_json_with_text_around_it():
    m = start_session(Spoken('Sure:\n```json\n{"result": "negative"}\n```'))
    assert sentiment(m, text="x") == "negative"


def test_a_result_of_the_wrong_type_is_asked_for_again_with_the_reason():
    m = says("neutral", "negative")
    assert sentiment(m, text="x") == "negative"
    assert "Input should be 'positive' or 'negative'" in m.backend.requests[1].messages[0].content


@pytest.mark.parametrize("answer", ["no JSON", '{"result": "neutral"}', "", '{"result'])
def test_one_that_never_comes_is_an_error(answer):
    m = start_session(Spoken(answer))
    with pytest.raises(OutputTypeError, match="sentiment"):
        sentiment(m, text="x")
    assert m.backend.opened == 2


def test_requirements_judge_the_result_and_not_its_json():
    seen = []

    def judge(text):
        seen.append(text)
        return len(seen) > 1, "again"

    m = says("positive", "negative")
    requirement = sv.req("twice", sv.simple_validate(judge))
    assert sentiment(m, text="x", requirements=[requirement]) == "negative"
    assert seen == ["positive", "negative"]
    assert "- twice: again" in m.backend.requests[1].messages[0].content


def test_requirements_that_are_never_met_leave_the_result_with_a_warning():
    never = sv.req("never", lambda ctx: False)
    with pytest.warns(UserWarning, match="does not meet: never"):
        assert sentiment(says("positive", "positive"), text="x", requirements=[never]) == "positive"


@pytest.mark.parametrize("strategy", [None, sv.session.RejectionSamplingStrategy()])
def test_preconditions_hold_with_and_without_a_strategy(strategy):
    m = says("positive")
    polite = sv.req("polite", lambda ctx: True)
    with pytest.raises(sv.errors.PreconditionException, match="short: 30 is long") as raised:
        sentiment(m, text="x" * 30, precondition_requirements=[polite, short], strategy=strategy)
    assert [v.reason for v in raised.value.validation] == ["30 is long"]
    assert m.backend.opened == 0
    assert sentiment(m, text="x", precondition_requirements=[short], strategy=strategy)


async def test_preconditions_see_all_arguments():
    seen = []
    sees = sv.req("sees", sv.simple_validate(lambda text: bool(seen.append(text)) or True))
    await words(says(["a"]), text="a b", precondition_requirements=[sees])
    assert json.loads(seen[0]) == {"text": "a b", "limit": 3}


def test_wrong_use_is_named():
    with pytest.raises(UsageError, match="session first"):
        sentiment("text")
    with pytest.raises(UsageError, match="missing a required argument: 'text'"):
        sentiment(says("positive"))
    with pytest.raises(UsageError, match="return type"):
        generative(lambda text: None)

    def clash(strategy: str) -> str: ...

    with pytest.raises(UsageError, match="'strategy'"):
        generative(clash)


def test_it_keeps_its_name_and_docstring():
    assert sentiment.__name__ == "sentiment"
    assert sentiment.__doc__ == "Classify the sentiment of the text."


@pytest.mark.local_model
def test_on_the_real_model_a_grammar_holds_the_type(local_backend):
    m = start_session(local_backend)
    options = {"max_tokens": 40}
    assert sentiment(m, text="I hate rain.", model_options=options) in ("positive", "negative")
    found = city(m, country="France", model_options={**options, "max_tokens": 60})
    assert isinstance(found, City)


def says_please(**options):
    return sv.stream_check(lambda text: ("please" in text, "no please"), "say please", **options)


async def test_requirements_and_preconditions_of_a_generative_function_keep_nothing():
    requirement, precondition = says_please(), says_please()
    for _ in range(2):
        m = sv.start_session(Spoken('{"result": "rude"}'))
        with pytest.warns(UserWarning, match="no please"):
            await letter(m, name="Ann", requirements=[requirement])
        with pytest.raises(sv.errors.PreconditionException):
            await letter(m, name="Ann", precondition_requirements=[precondition])


async def test_those_of_a_generative_function_judge_the_result():
    three = sv.req("3 long", sv.simple_validate(lambda text: (len(text) == 3, f"it is {text!r}")))
    m = sv.start_session(Spoken('{"result": "abc"}'))
    strategy = sv.session.RejectionSamplingStrategy(requirements=[three])
    assert await letter(m, name="x", strategy=strategy) == "abc"


def test_the_session_may_be_given_by_name():
    @sv.generative
    def mood(text: str) -> str:
        """The mood."""

    @sv.generative
    def letters(m: str) -> str:
        """Its letters."""

    assert mood(m=says("glad"), text="hello") == "glad"
    assert letters(says("abc"), m="cab") == "abc"
    with pytest.raises(UsageError, match="with a session first"):
        letters(m="cab")


async def test_preconditions_are_asked_where_the_generation_goes():
    m = says("glad")

    @sv.generative
    async def mood(text: str) -> str:
        """The mood."""

    asked = []

    class Looks(sv.Requirement):
        async def validate(self, backend, ctx, **_):
            asked.append(dict(backend.options))
            return sv.ValidationResult(True)

    await mood(
        m, text="x", precondition_requirements=[Looks()], model_options={"api_base": "http://there"}
    )
    assert asked == [{"api_base": "http://there"}]


def test_a_context_and_a_backend_in_place_of_a_session():
    backend = sv.ScriptedBackend('{"result": "Dear Ann"}')

    @sv.generative
    def letter_to(name: str) -> str:
        """Write a letter."""

    value, ctx = letter_to(context=sv.types.ChatContext(), backend=backend, name="Ann")
    assert value == "Dear Ann"
    assert "Dear Ann" in str(ctx.last_output())
    with pytest.raises(UsageError, match="context= and backend="):
        letter_to(backend=backend, name="Ann")


async def test_an_async_function_with_a_context_returns_both():
    @sv.generative
    async def letter_to(name: str) -> str:
        """Write a letter."""

    value, ctx = await letter_to(
        context=sv.types.SimpleContext(), backend=sv.ScriptedBackend('{"result": "Hi"}'), name="B"
    )
    assert (value, ctx.last_output() is not None) == ("Hi", True)


def test_a_return_type_for_type_checkers_alone_is_said_to_be_unknown():
    def price(item: "Unknown", count: int) -> "Decimal":  # noqa: F821
        """Price an item."""

    with pytest.warns(UserWarning, match=r"price is not known when the program runs.*Decimal"):
        priced = sv.generative(price)
    m = sv.start_session(sv.ScriptedBackend('{"result": [1, "any"]}'))
    assert priced(m, item="x", count=2) == [1, "any"]

    def known(item: "Unknown") -> "list[int]":  # noqa: F821
        """Count."""

    m = sv.start_session(sv.ScriptedBackend('{"result": [1]}'))
    assert sv.generative(known)(m, item="x") == [1]
