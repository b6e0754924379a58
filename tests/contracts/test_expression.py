"""Tests of `streamval.contracts.expression`."""

import asyncio
import json
import subprocess
import sys

import pytest
from pydantic import Field

import streamval as sv
from streamval import Expression, contract
from streamval.errors import UsageError
from tests.support.contracts import NOW, Q, Question, answer, made, refuses, says
from tests.support.sources import Spoken, types


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


class Asked(sv.LLMDataModel):
    n: int = Field(description="How many there are to be.")


class Given(sv.LLMDataModel):
    words: list[str] = Field(description="The words.")


def test_descriptions_of_the_input_and_options_of_the_call_reach_the_model():
    backend = Spoken('{"words": ["one"]}')

    @sv.contract(backend=backend)
    class Words(sv.Expression):
        prompt = "Give words."

        def forward(self, asked: Asked, **more) -> Given:
            assert more == {"temperature": 0.25}
            return self.contract_result

    assert Words()(Asked(n=1), temperature=0.25).words == ["one"]
    (request,) = backend.requests
    assert "How many there are to be." in request.messages[-1].content
    assert "The words." in request.messages[-1].content
    assert request.options["temperature"] == 0.25


@pytest.mark.parametrize("said", ['{"value": null}', '{"value": {"words": []}}'])
def test_an_output_may_be_optional(said):
    @sv.contract(backend=sv.ScriptedBackend(said))
    class Maybe(sv.Expression):
        prompt = "Give words, or nothing."

        def forward(self, asked: Asked) -> Given | None:
            return self.contract_result

    made = Maybe()
    result = made(Asked(n=0))
    assert made.contract_successful
    assert result == (None if "null" in said else Given(words=[]))


def test_what_a_call_came_to_can_be_set():
    @sv.contract(backend=sv.ScriptedBackend("no JSON"), remedy_retry_params={"tries": 0})
    class Mended(sv.Expression):
        prompt = "Give words."

        def forward(self, asked: Asked) -> Given:
            assert not self.contract_successful
            self.contract_result = Given(words=["mended"])
            self.contract_successful, self.contract_exception = True, None
            return self.contract_result

    made = Mended()
    assert made(Asked(n=1)).words == ["mended"]
    assert (made.contract_successful, made.contract_exception) == (True, None)


def test_verbose_shows_something_where_logging_is_not_set_up():
    code = """
import streamval as sv
@sv.contract(backend=sv.ScriptedBackend('{"value": 3}'), verbose=True)
class Three(sv.Expression):
    prompt = "Give three."
    def forward(self, n: int) -> int:
        return self.contract_result
print(Three()(1))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "3\n"
    assert "Give three." in done.stderr
    assert "output passed" in done.stderr
