"""Tests of `streamval.contracts.terms`."""

import json
from typing import Any

import pytest

import streamval as sv
from streamval import Expression, LLMDataModel, contract
from streamval.contracts.terms import as_json
from streamval.errors import InputTypeError, UsageError
from tests.support.contracts import Answer, Inner, Q, Question, answer, made, says


@pytest.mark.parametrize(
    ("args", "kwargs"), [((Q,), {}), ((), {"question": Q}), ((), {"input": Q})]
)
def test_the_input_may_come_in_three_ways(args, kwargs):
    expression = made(says(answer("Ann")))
    expression(*args, **kwargs, style="short")
    assert expression.forwarded == ((Q, {"style": "short"}),)


def test_its_own_name_goes_before_input():
    expression = made(says(answer("Ann")))
    expression(question=Q, input="another")
    assert expression.forwarded == ((Q, {"input": "another"}),)


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "message"),
    [
        ((), {}, UsageError, "there is no input: give it first, or as question="),
        ((Q, Q), {}, UsageError, "one input"),
        ((Q,), {"question": Q}, UsageError, "given twice"),
        (("text",), {}, InputTypeError, "the input is no Question"),
        (({"text": "Who?"},), {}, InputTypeError, "the input is no Question"),
    ],
)
def test_wrong_input_is_named_and_nothing_runs(args, kwargs, error, message):
    expression = made(says(answer("Ann")))
    with pytest.raises(error, match=message):
        expression(*args, **kwargs)
    assert expression.forwarded == ()


@pytest.mark.parametrize(
    ("input_type", "output_type", "given", "value"),
    [
        (str, int, "seven", 7),
        (int, list[int], 2, [1, 2]),
        (list[str], dict[str, int], ["a"], {"a": 1}),
        (str, int | None, "none", None),
        (str, Answer, "who", {"text": "Ann"}),
        (Question, str, Q, "Ann"),
    ],
)
def test_native_types_are_wrapped_and_unwrapped(input_type, output_type, given, value):
    seen = []

    class Native(Expression):
        prompt = "Go."

        def pre(self, given: input_type):
            seen.append(given)

        def act(self, given: input_type) -> tuple[str, int]:
            return ("acted", 1)

        def post(self, output: output_type):
            seen.append(output)

        def forward(self, given: input_type) -> output_type:
            seen.append(given)
            return self.contract_result

    native = not isinstance(output_type, type) or not issubclass(output_type, LLMDataModel)
    contract(backend=says(json.dumps({"value": value} if native else value)))(Native)
    expected = value if native else Answer(**value)
    assert Native()(given) == expected
    assert seen == [given, expected, ("acted", 1)]


def test_what_a_class_lacks_is_said_when_it_is_defined():
    class NoPrompt(Expression):
        def forward(self, n: int) -> int: ...

    class NoReturn(Expression):
        prompt = "x"

        def forward(self, n: int): ...

    class NoType(Expression):
        prompt = "x"

        def forward(self, n) -> int: ...

    class NoInput(Expression):
        prompt = "x"

        def forward(self) -> int: ...

    class NoActType(Expression):
        prompt = "x"

        def act(self, n: int): ...

        def forward(self, n: int) -> int: ...

    cases = {
        NoPrompt: "needs a prompt",
        NoReturn: "forward needs a return type",
        NoType: "needs a type for its input",
        NoInput: "needs a parameter",
        NoActType: "act needs a return type",
        int: "class of Expression",
    }
    for cls, message in cases.items():
        with pytest.raises(UsageError, match=message):
            contract()(cls)


@pytest.mark.parametrize(
    ("params", "message"), [({"trys": 3}, "no 'trys'"), ({"delay": -1}, "cannot be negative")]
)
def test_retry_params_that_cannot_work(params, message):
    with pytest.raises(UsageError, match=message):
        contract(remedy_retry_params=params)


def test_partial_retry_params_are_filled_up():
    expression = made(says(answer("Ann")), remedy_retry_params={"tries": 1})
    assert expression(Q).text == "Ann"


def test_an_argument_that_nobody_takes_goes_to_the_model():
    expression = Inner(backend=says('{"value": 3}'))
    expression(1, temperature=0.0, seed=7)
    assert dict(expression.backend.requests[0].options) == {"temperature": 0.0, "seed": 7}


def test_a_misspelt_one_is_refused_where_the_model_knows_its_options():
    speaking = sv.OpenAIBackend("x", base_url="http://127.0.0.1:9")
    with pytest.raises(UsageError, match="did you mean 'temperature'"):
        Inner(backend=speaking)(1, temprature=0.0)


class Named(LLMDataModel):
    name: str


class Loud(LLMDataModel):
    shout: str


@pytest.mark.parametrize("forward_type", [Named, Loud, None], ids=["input's", "act's", "none"])
@pytest.mark.parametrize("who_names_it", ["pre", "act"])
def test_forward_may_name_the_type_of_the_input_of_act_or_none(forward_type, who_names_it):
    class Greets(Expression):
        prompt = "Greet."

        def pre(self, given):
            assert isinstance(given, Named)

        def act(self, given) -> Loud:
            return Loud(shout=given.name.upper())

        def forward(self, given) -> str:
            return f"{self.contract_result} {given.shout}"

    getattr(Greets, who_names_it).__annotations__["given"] = Named
    if forward_type is not None:
        Greets.forward.__annotations__["given"] = forward_type
    contract(backend=says('{"value": "Hello"}'))(Greets)
    assert Greets()(Named(name="Ann")) == "Hello ANN"
    with pytest.raises(InputTypeError, match="the input is no Named"):
        Greets()(Loud(shout="ANN"))


def test_what_json_cannot_say_is_shown_as_python_shows_it():
    class Anything(LLMDataModel):
        model_config = {"arbitrary_types_allowed": True}
        it: Any = None

    around = Anything()
    around.it = [around]
    assert str(Anything(it=b"\xff\x00")) == repr(Anything(it=b"\xff\x00"))
    assert str(Anything(it=b"ok")) == '{"it":"ok"}'
    assert str(Anything(it={1, 2}))
    assert "object" in str(Anything(it=object()))
    assert "..." in str(around)
    assert str(Anything(it=float("nan"))) in ('{"it":null}', '{"it":NaN}')


def test_an_input_that_json_cannot_say_is_asked_about_all_the_same():
    class Around(Expression):
        prompt = "Go."

        def forward(self, given: list[Any]) -> str:
            return self.contract_result

    contract(backend=says('{"value": "went"}'))(Around)
    given = []
    given.append(given)
    assert Around()(given) == "went"


@pytest.mark.parametrize("tries", ["3", 1.5])
def test_tries_are_a_whole_number(tries):
    with pytest.raises(UsageError, match="whole number"):
        sv.contract(remedy_retry_params={"tries": tries})


@pytest.mark.parametrize(
    ("args", "kwargs", "complaint"),
    [
        ((Q,), {"input": Q}, "given twice, by position and as 'input'"),
        ((), {"question": Q, "input": Q}, "given twice, as 'question' and as 'input'"),
        ((Q,), {"prompt": "hi"}, "a contract has a prompt of its own"),
    ],
)
def test_what_is_given_twice_goes_to_nobody(args, kwargs, complaint):
    class Strict(Expression):
        prompt = "Answer."

        def forward(self, question: Question) -> Answer:
            return self.contract_result

    contract(backend=says(answer("Ann")))(Strict)
    with pytest.raises(UsageError, match=complaint):
        Strict()(*args, **kwargs)


def test_values_that_cannot_even_be_shown():
    class Shy:
        def __repr__(self):
            raise ValueError

    deep = []
    for _ in range(3000):
        deep = [deep]
    assert "Shy" in as_json(Shy())
    assert as_json(deep)
