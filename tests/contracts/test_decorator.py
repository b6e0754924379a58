"""Tests of `streamval.contracts.decorator`."""

import json
import logging
from dataclasses import replace

import pytest

import streamval as sv
from streamval.errors import UsageError
from tests.support.contracts import NOW, Inner, Q, Question, answer, made, refuses, says


def prompts(backend):
    return [request.messages[-1].content for request in backend.requests]


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


def test_a_class_that_inherits_a_contract_has_its_own_methods_under_it():
    class Strict(Inner):
        def post(self, output: int):
            raise ValueError("never")

        def forward(self, n: int) -> int:
            return -1 if self.contract_exception else 1

    strict = Strict()
    type(strict)._contract = Inner._contract.of(Strict)
    known = type(strict)._contract
    known.terms = replace(known.terms, params={**known.terms.params, "tries": 0})
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
