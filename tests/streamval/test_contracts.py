"""Contracts: each stage, each promise of the reference, and each fault of the original."""

import asyncio
import json
import logging

import pytest
from pydantic import Field

import streamval as sv
from streamval import Expression, LLMDataModel, contract
from streamval.errors import ContractViolationError, InputTypeError, OutputTypeError, UsageError
from tests.support.sources import Spoken, types
from tests.support.virtual_time import run_virtually


class Question(LLMDataModel):
    text: str = Field(description="What is asked.")
    limit: int = Field(default=20, description="Letters at most.")


class Notes(LLMDataModel):
    words: list[str]


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


# The stages


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


async def test_it_can_be_awaited():
    assert (await made(says(answer("Ann"))).acall(Q)).text == "Ann"


async def test_a_sync_call_inside_a_running_loop_as_in_jupyter():
    assert made(says(answer("Ann")))(Q).text == "Ann"


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


def test_verbose_logs_prompts_and_stages(caplog):
    with caplog.at_level(logging.INFO, "streamval.contracts"):
        made(says(answer("Ann")), pre=refuses("x"), verbose=True)(Q)
    assert "Answer the question." in caplog.text
    assert "pre passed" in caplog.text


def test_the_prompt_may_name_fields_of_the_input():
    class Named(Expression):
        prompt = "Answer in {{limit}} letters."

        def forward(self, question: Question) -> Answer:
            return self.contract_result

    backend = says(answer("Ann"))
    contract(backend=backend)(Named)
    Named()(Q)
    assert "Answer in 20 letters." in prompts(backend)[0]


# Input


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


# Native types


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


# Wrong use


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


# Pauses


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


# Many calls


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


def test_a_contract_may_call_another_one():
    inner = made(says(answer("Ann")))
    outer = made(says(answer("Bob")), forward=lambda self: inner(Q))
    assert outer(Q).text == "Ann"
    assert outer.contract_result.text == "Bob"


def test_an_instances_own_backend_goes_first():
    other = says(answer("Eve"))
    expression = made(says(answer("Ann")))
    expression.backend = other
    assert expression(Q).text == "Eve"
    assert type(expression)(backend=other)(Q).text == "Eve"
    assert type(expression)()(Q).text == "Ann"


# Figures


def test_figures_of_each_stage_sum_to_100(capsys):
    def act(self, question: Question) -> Question:
        return question

    expression = made(says(answer("Ann")), pre=refuses("x"), act=act, post=refuses("x"))
    expression(Q)
    expression(Q)
    stats = expression.contract_perf_stats()
    assert set(stats) == {"pre", "act", "output", "post", "forward", "overhead"}
    for figures in stats.values():
        assert set(figures) == {"count", "total", "mean", "std", "min", "max", "percentage"}
        assert figures["count"] == 2
        assert 0 <= figures["min"] <= figures["mean"] <= figures["max"] <= figures["total"]
    assert sum(figures["percentage"] for figures in stats.values()) == pytest.approx(100)
    assert "share" in capsys.readouterr().out


def test_before_the_first_call_there_are_no_figures():
    assert made(says("")).contract_perf_stats(show=False) == {}


# Events from inside


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


# Faults of the original that ours does not have


def test_a_semantic_failure_is_not_forgotten_when_later_answers_are_no_json():
    backend = says(answer("Bob"), "no JSON", '{"text": ')
    expression = made(backend, post=refuses("Bob"), remedy_retry_params={**NOW, "tries": 2})
    assert expression(Q).text == "fallback"
    assert not expression.contract_successful
    assert expression.contract_result is None


def test_nothing_is_left_over_from_the_call_before():
    backend = says(answer("Ann"), answer("Bob"))
    expression = made(backend, post=refuses("Bob"), remedy_retry_params={**NOW, "tries": 0})
    assert expression(Q).text == "Ann"
    assert expression(Q).text == "fallback"
    assert expression.contract_result is None
    assert expression.contract_exception is not None


def test_partial_retry_params_are_filled_up():
    expression = made(says(answer("Ann")), remedy_retry_params={"tries": 1})
    assert expression(Q).text == "Ann"


def test_a_native_output_of_act_is_fine():
    def act(self, question: Question) -> list[str]:
        return question.text.split()

    assert made(says(answer("Ann")), act=act)(Q).text == "Ann"


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
        def deltas_of(self, request):
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
