"""Tests of `streamval.contracts.decorator`."""

import json
import logging

import pytest
from pydantic import (
    Field,
)

import streamval as sv
from streamval import Expression, LLMDataModel, contract
from streamval.errors import UsageError
from tests.support.sources import Spoken


class Question(LLMDataModel):
    text: str = Field(description="What is asked.")
    limit: int = Field(default=20, description="Letters at most.")


class Answer(LLMDataModel):
    text: str = Field(description="The answer, in a few words.")
    sure: bool = False


NOW = {"delay": 0, "jitter": 0}


def answer(text, **more):
    return json.dumps({"text": text, **more})


def says(*answers):
    """A backend with an answer an attempt, and the last one for good."""

    class Says(Spoken):
        def deltas_of(self, request):
            text = answers[min(len(self.requests), len(answers)) - 1]
            if not isinstance(text, str):
                return [text]
            return [text[n : n + 4] for n in range(0, len(text), 4)]

    return Says()


def prompts(backend):
    return [request.messages[-1].content for request in backend.requests]


def made(backend, *, act=None, pre=None, post=None, forward=None, **options):
    """An instance of a class under contract, of these functions."""
    options.setdefault("remedy_retry_params", NOW)

    class Made(Expression):
        prompt = "Answer the question."
        forwarded = ()

        def forward(self, question: Question, **kwargs) -> Answer:
            self.forwarded = (*self.forwarded, (question, kwargs))
            if forward is not None:
                return forward(self)
            return self.contract_result or Answer(text="fallback")

    for name, function in (("pre", pre), ("post", post), ("act", act)):
        if function is not None:
            setattr(Made, name, function)
    contract(backend=backend, **options)(Made)
    return Made()


def refuses(*bad):
    def condition(self, value):
        if value.text in bad:
            raise ValueError(f"{value.text} will not do")

    return condition


Q = Question(text="Who?")


def test_without_a_remedy_the_first_answer_counts():
    backend = says(answer("Bob"), answer("Ann"))
    expression = made(backend, post=refuses("Bob"), post_remedy=False)
    assert expression(Q).text == "fallback"
    assert backend.opened == 1
    assert "Bob will not do" in str(expression.contract_exception)
    assert expression.contract_exception.stage == "output"


def test_tries_are_remedies_after_the_first_answer():
    backend = says(answer("Bob"))
    expression = made(backend, post=refuses("Bob"), remedy_retry_params={**NOW, "tries": 2})
    expression(Q)
    assert backend.opened == 3
    assert "after 3 attempts" in str(expression.contract_exception)


def test_pre_is_remedied_where_wanted():
    mended = json.dumps({"text": "Who wrote Emma?", "limit": 5})
    backend = says(mended, answer("Austen"))
    expression = made(backend, pre=refuses("Who?"), pre_remedy=True)
    assert expression(Q).text == "Austen"
    assert "- Who? will not do" in prompts(backend)[0]
    assert backend.requests[0].format is Question
    assert "Who wrote Emma?" in prompts(backend)[1]
    assert expression.forwarded[0][0] == Question(text="Who wrote Emma?", limit=5)


def test_verbose_logs_prompts_and_stages(caplog):
    with caplog.at_level(logging.INFO, "streamval.contracts"):
        made(says(answer("Ann")), pre=refuses("x"), verbose=True)(Q)
    assert "Answer the question." in caplog.text
    assert "pre passed" in caplog.text


@sv.contract(backend=sv.ScriptedBackend('{"value": 1}'))
class Inner(sv.Expression):
    prompt = "x"

    def forward(self, n: int) -> int:
        return self.contract_result


def test_a_class_that_inherits_a_contract_has_its_own_methods_under_it():
    class Strict(Inner):
        def post(self, output: int):
            raise ValueError("never")

        def forward(self, n: int) -> int:
            return -1 if self.contract_exception else 1

    strict = Strict()
    type(strict)._contract = Inner._contract.of(Strict)
    type(strict)._contract.params = {**type(strict)._contract.params, "tries": 0}
    assert strict(1) == -1
    assert "never" in str(strict.contract_exception)
    assert Inner()(1) == 1


@pytest.mark.parametrize("kind", [staticmethod, classmethod])
def test_methods_of_a_contract_are_plain(kind):
    class Odd(sv.Expression):
        prompt = "x"
        pre = kind(lambda *_: True)

        def forward(self, n: int) -> int: ...

    with pytest.raises(UsageError, match="plain method"):
        sv.contract()(Odd)
