"""Tests of `streamval.contracts.call`."""

import asyncio
import json
from typing import Annotated

import pytest
from pydantic import AfterValidator

import streamval as sv
from streamval import Expression, LLMDataModel, contract
from streamval.errors import ContractViolationError, OutputTypeError
from tests.support.contracts import NOW, Answer, Q, Question, answer, made, refuses, says
from tests.support.sources import Spoken


class Notes(LLMDataModel):
    words: list[str]


def prompts(backend):
    return [request.messages[-1].content for request in backend.requests]


def test_what_holds_is_the_result():
    backend = says(answer("Ann", sure=True))
    expression = made(backend, pre=refuses("x"), post=refuses("x"))
    assert expression(Q) == Answer(text="Ann", sure=True)
    assert expression.contract_successful
    assert expression.contract_result == Answer(text="Ann", sure=True)
    assert expression.contract_exception is None
    (prompt,) = prompts(backend)
    for part in ("Answer the question.", '"text":"Who?"', "The answer, in a few words."):
        assert part in prompt
    assert backend.requests[0].format is Answer


async def test_its_methods_may_be_async():
    class Async(Expression):
        prompt = "Go."

        async def pre(self, n: int):
            await asyncio.sleep(0)

        async def act(self, n: int) -> int:
            return n + 1

        async def post(self, output: int):
            assert output == self._current_input

        async def forward(self, n: int) -> int:
            return self.contract_result

    contract(backend=says('{"value": 2}'))(Async)
    assert await Async().acall(1) == 2
    assert await asyncio.to_thread(Async(), 1) == 2


def test_act_makes_the_input_of_the_model_and_of_forward():
    def act(self, question: Question, **kwargs) -> Notes:
        self.noted = kwargs
        return Notes(words=question.text.split())

    backend = says(answer("Ann"))
    expression = made(backend, act=act)
    expression(Q, style="short")
    assert '"words":["Who?"]' in prompts(backend)[0]
    assert expression.forwarded == ((Notes(words=["Who?"]), {"style": "short"}),)
    assert expression.noted == {"style": "short"}


def test_pre_without_a_remedy_fails_and_nothing_is_generated():
    backend = says(answer("Ann"))
    expression = made(backend, pre=refuses("Who?"))
    assert expression(Q).text == "fallback"
    assert backend.opened == 0
    assert expression.contract_exception.stage == "pre"
    assert isinstance(expression.contract_exception.__cause__, ValueError)


def test_a_condition_that_returns_false_is_violated():
    expression = made(says(answer("Ann")), pre=lambda self, question: False)
    expression(Q)
    assert not expression.contract_successful


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        ({"pre": refuses("Who?")}, "Who? will not do"),
        ({"post": refuses("Ann")}, "Ann will not do"),
        ({"act": "raises"}, "no notes"),
        ({"act": "lies"}, "act returned no Notes"),
    ],
)
def test_forward_runs_whatever_failed_with_the_original_input(broken, error):
    def act(self, question: Question) -> Notes:
        if broken["act"] == "raises":
            raise LookupError("no notes")
        return "no notes at all"

    broken_act = {"act": act} if "act" in broken else broken
    expression = made(says(answer("Ann")), remedy_retry_params={**NOW, "tries": 1}, **broken_act)
    assert expression(Q).text == "fallback"
    assert expression.forwarded == ((Q, {}),)
    assert not expression.contract_successful
    assert expression.contract_result is None
    assert error in str(expression.contract_exception)


def test_forward_runs_when_the_backend_breaks():
    expression = made(says(sv.errors.StreamBrokenError("gone")))
    assert expression(Q).text == "fallback"
    assert isinstance(expression.contract_exception, sv.errors.StreamBrokenError)


def test_forward_can_raise_what_the_contract_failed_with():
    def forward(self):
        raise self.contract_exception

    expression = made(says(answer("Bob")), post=refuses("Bob"), post_remedy=False, forward=forward)
    with pytest.raises(ContractViolationError, match="Bob will not do"):
        expression(Q)


def test_what_forward_returns_is_checked():
    expression = made(says(answer("Ann")), forward=lambda self: {"text": "Ann"})
    with pytest.raises(OutputTypeError, match="forward returned no Answer"):
        expression(Q)


def test_graceful_keeps_the_exception_and_lets_forward_return_anything():
    expression = made(
        says(answer("Bob")),
        post=refuses("Bob"),
        forward=lambda self: {"status": "error"},
        remedy_retry_params={**NOW, "tries": 1, "graceful": True},
    )
    assert expression(Q) == {"status": "error"}
    assert expression.contract_exception is None
    assert not expression.contract_successful


def test_a_contract_may_call_another_one():
    inner = made(says(answer("Ann")))
    outer = made(says(answer("Bob")), forward=lambda self: inner(Q))
    assert outer(Q).text == "Ann"
    assert outer.contract_result.text == "Bob"


def test_a_semantic_failure_is_not_forgotten_when_later_answers_are_no_json():
    backend = says(answer("Bob"), "no JSON", '{"text": ')
    expression = made(backend, post=refuses("Bob"), remedy_retry_params={**NOW, "tries": 2})
    assert expression(Q).text == "fallback"
    assert not expression.contract_successful
    assert expression.contract_result is None


def test_a_native_output_of_act_is_fine():
    def act(self, question: Question) -> list[str]:
        return question.text.split()

    assert made(says(answer("Ann")), act=act)(Q).text == "Ann"


def test_a_graceful_end_of_pre_does_not_go_on_with_a_bad_input():
    backend = says(json.dumps({"text": "Who?"}))
    acted = []

    def act(self, question: Question) -> Question:
        acted.append(question)
        return question

    expression = made(
        backend,
        pre=refuses("Who?"),
        act=act,
        pre_remedy=True,
        remedy_retry_params={**NOW, "tries": 2, "graceful": True},
    )
    assert expression(Q).text == "fallback"
    assert backend.opened == 2
    assert acted == []
    assert not expression.contract_successful


async def test_a_cancelled_call_closes_the_backend_and_does_not_go_on():
    class Hangs(Spoken):
        def script_of(self, request):
            return ['{"text"', asyncio.Event().wait]

    backend = Hangs()
    expression = made(backend)
    task = asyncio.create_task(expression.acall(Q))
    while not backend.said:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert backend.closed == 1
    assert expression.forwarded == ()


async def test_an_assertion_without_words_and_a_broken_backend_are_told():
    class Asserts(sv.Expression):
        prompt = "x"

        def pre(self, n: int):
            if n == 0:
                raise AssertionError

        def forward(self, n: int) -> int:
            return 0

    sv.contract(backend=Spoken(sv.errors.StreamBrokenError("gone")))(Asserts)
    expression, events = Asserts(), []
    expression.subscribe(events.append)
    expression.subscribe(events.append).dispose()  # of one of the two
    await expression.acall(0)
    assert "AssertionError" in str(expression.contract_exception)
    assert events
    events.clear()
    await expression.acall(1)
    assert events[-1].status == "failed"
    assert "gone" in events[-1].reason


async def test_a_result_that_passed_is_not_judged_again():
    words_type = Annotated[list[str], AfterValidator(lambda words: [w.upper() for w in words])]

    class Upper(sv.Expression):
        prompt = "x"

        def forward(self, n: int) -> words_type:
            return self.contract_result

    sv.contract(backend=Spoken('{"value": ["a"]}'))(Upper)
    assert await Upper().acall(1) == ["A"]


@pytest.mark.parametrize(("said", "successful"), [('{"value": null}', True), ("no JSON", False)])
def test_a_result_of_none_is_told_from_a_failure(said, successful):
    class Maybe(Expression):
        prompt = "Name one, if there is one."

        def forward(self, given: int) -> str | None:
            return self.contract_result if self.contract_successful else "fell back"

    contract(backend=says(said), post_remedy=False)(Maybe)
    expression = Maybe()
    assert expression(1) == (None if successful else "fell back")
    assert expression.contract_successful is successful
    assert expression.contract_result is None
