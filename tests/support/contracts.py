"""What the tests of contracts share."""

import json

from pydantic import Field

import streamval as sv
from streamval import Expression, LLMDataModel, contract
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
        def script_of(self, request):
            text = answers[min(len(self.requests), len(answers)) - 1]
            if not isinstance(text, str):
                return [text]
            return [text[n : n + 4] for n in range(0, len(text), 4)]

    return Says()


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


@sv.contract(backend=sv.ScriptedBackend('{"value": 1}'))
class Inner(sv.Expression):
    prompt = "x"

    def forward(self, n: int) -> int:
        return self.contract_result
