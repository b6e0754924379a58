"""Tests of `streamval.contracts.terms`."""

import json

import pytest

import streamval as sv
from streamval import Expression, LLMDataModel, contract
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
        NoType: "needs a type for 'n'",
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


def test_an_argument_that_nobody_takes_is_refused():
    with pytest.raises(UsageError, match="'typo'"):
        Inner()(1, typo=3)


@pytest.mark.parametrize("tries", ["3", 1.5])
def test_tries_are_a_whole_number(tries):
    with pytest.raises(UsageError, match="whole number"):
        sv.contract(remedy_retry_params={"tries": tries})
