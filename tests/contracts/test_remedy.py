"""Tests of `streamval.contracts.remedy`."""

from streamval import Expression, contract
from streamval.testing import run_virtually
from tests.support.contracts import NOW, Answer, Q, Question, answer, made, refuses, says


def prompts(backend):
    return [request.messages[-1].content for request in backend.requests]


def test_a_wrong_type_is_cut_at_its_value_and_the_remedy_sees_which_one():
    backend = says('{"text": 7, "sure": true, "more": "' + "x" * 500, answer("Ann"))
    expression = made(backend)
    assert expression(Q).text == "Ann"
    assert backend.said < 20
    assert "- $.text: Input should be a valid string, not 7" in prompts(backend)[1]


def test_what_post_refuses_is_remedied_and_judged_again():
    backend = says(answer("Bob"), answer("Eve"), answer("Ann"))
    expression = made(backend, post=refuses("Bob", "Eve"))
    assert expression(Q).text == "Ann"
    assert "- Bob will not do" in prompts(backend)[1]
    assert "Bob" not in prompts(backend)[2]
    assert "- Eve will not do" in prompts(backend)[2]


def test_errors_accumulate_where_wanted():
    backend = says(answer("Bob"), answer("Eve"), answer("Ann"))
    made(backend, post=refuses("Bob", "Eve"), accumulate_errors=True)(Q)
    assert "- Bob will not do\n- Eve will not do" in prompts(backend)[2]


def test_the_prompt_may_name_fields_of_the_input():
    class Named(Expression):
        prompt = "Answer in {{limit}} letters."

        def forward(self, question: Question) -> Answer:
            return self.contract_result

    backend = says(answer("Ann"))
    contract(backend=backend)(Named)
    Named()(Q)
    assert "Answer in 20 letters." in prompts(backend)[0]


def test_pauses_grow_up_to_their_limit():
    params = {"tries": 4, "delay": 1, "backoff": 2, "max_delay": 3, "jitter": 0}
    expression = made(says(answer("Bob")), post=refuses("Bob"), remedy_retry_params=params)
    _, seconds = run_virtually(expression.acall(Q))
    assert seconds == 1 + 2 + 3 + 3


def test_jitter_adds_a_part_of_the_delay():
    params = {"tries": 1, "delay": 10, "max_delay": 100, "jitter": 0.5}
    expression = made(says(answer("Bob")), post=refuses("Bob"), remedy_retry_params=params)
    _, seconds = run_virtually(expression.acall(Q))
    assert 10 <= seconds <= 15


def test_the_last_remedy_is_judged():
    judged = []

    def post(self, output):
        judged.append(output.text)
        raise ValueError("never")

    params = {**NOW, "tries": 2}
    backend = says(answer("a"), answer("b"), answer("c"))
    expression = made(backend, post=post, remedy_retry_params=params)
    expression(Q)
    assert judged == ["a", "b", "c"]
    assert not expression.contract_successful


def test_braces_that_no_field_fills_stay_as_they_are():
    class Braces(Expression):
        prompt = 'For {{ text }} write {{name}}, {% if x %}, {"a": {}} and {{text|upper}}.'

        def forward(self, question: Question) -> Answer:
            return self.contract_result

    backend = says(answer("Ann"))
    contract(backend=backend)(Braces)
    Braces()(Question(text="{{limit}}"))  # and what is filled in is no template
    asked = backend.requests[0].messages[0].content
    assert 'For {{limit}} write {{name}}, {% if x %}, {"a": {}} and {{text|upper}}.' in asked
