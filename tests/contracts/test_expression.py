"""Tests of `streamval.contracts.expression`."""

import asyncio
import json

import pytest
from pydantic import Field

import streamval as sv
from streamval import Expression, LLMDataModel, contract
from streamval.errors import UsageError
from tests.support.sources import Spoken, types


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


async def test_it_can_be_awaited():
    assert (await made(says(answer("Ann"))).acall(Q)).text == "Ann"


async def test_a_sync_call_inside_a_running_loop_as_in_jupyter():
    assert made(says(answer("Ann")))(Q).text == "Ann"


async def test_calls_at_the_same_time_do_not_see_each_other():
    gate = asyncio.Event()

    class Slow(Spoken):
        async def stream(self, request):
            n = json.loads(request.messages[-1].content.split("Input:\n")[1].split("\n")[0])
            if n == 0:
                await gate.wait()
            yield json.dumps({"value": n * 10 if n % 2 == 0 else "odd"})
            gate.set()

    class Tens(Expression):
        prompt = "Times ten."

        def post(self, output: int):
            assert output == 10 * self._current_input

        def forward(self, n: int) -> int:
            return self.contract_result if self.contract_successful else -n

    contract(backend=Slow(), remedy_retry_params={**NOW, "tries": 0})(Tens)
    tens = Tens()
    assert await asyncio.gather(*map(tens.acall, range(6))) == [0, -1, 20, -3, 40, -5]
    assert tens.contract_perf_stats(show=False)["forward"]["count"] == 6


def test_an_instances_own_backend_goes_first():
    other = says(answer("Eve"))
    expression = made(says(answer("Ann")))
    expression.backend = other
    assert expression(Q).text == "Eve"
    assert type(expression)(backend=other)(Q).text == "Eve"
    assert type(expression)()(Q).text == "Ann"


def test_a_contract_can_be_watched_like_a_pipeline():
    def act(self, question: Question) -> Question:
        return question

    backend = says(answer("Bob"), answer("Ann"))
    expression = made(backend, pre=refuses("x"), act=act, post=refuses("Bob"))
    events, later = [], []

    async def slowly(event):
        await asyncio.sleep(0)
        later.append(event)

    subscription = expression.subscribe(events.append)
    expression.subscribe(slowly)
    expression(Q)
    assert later == events
    told = [e for e in events if e.type not in ("chunk", "quick_check", "partial_object")]
    assert [(e.stage, e.type) for e in told] == [
        ("pre", "stage"),
        ("act", "stage"),
        ("output", "started"),
        ("output", "streaming_done"),
        ("post", "full_validation"),
        ("output", "retry"),
        ("output", "streaming_done"),
        ("post", "full_validation"),
        ("output", "completed"),
        ("output", "stage"),
    ]
    assert {e.stage for e in events if e.type == "partial_object"} == {"output"}
    assert all(sv.EventAdapter.validate_json(sv.EventAdapter.dump_json(e)) == e for e in events)
    subscription.dispose()
    events.clear()
    expression(Q)
    assert events == []


def test_a_console_shows_a_contract(capsys):
    from streamval.sinks import Collect

    collect = Collect()
    expression = made(says(answer("Ann")))
    expression.subscribe(collect)
    expression(Q)
    assert types(collect.events)[-1] == "stage"


async def test_a_raising_subscriber_hurts_nobody(reported):
    expression = made(says(answer("Ann")))
    seen = []

    def raises(event):
        raise LookupError("no screen")

    expression.subscribe(raises)
    expression.subscribe(seen.append)
    assert (await expression.acall(Q)).text == "Ann"
    assert seen
    assert reported


def test_a_subscriber_is_a_function():
    with pytest.raises(UsageError, match="function of an event"):
        made(says("")).subscribe("me")


def test_nothing_is_left_over_from_the_call_before():
    backend = says(answer("Ann"), answer("Bob"))
    expression = made(backend, post=refuses("Bob"), remedy_retry_params={**NOW, "tries": 0})
    assert expression(Q).text == "Ann"
    assert expression(Q).text == "fallback"
    assert expression.contract_result is None
    assert expression.contract_exception is not None
