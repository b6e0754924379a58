"""Tests of `streamval.requirements.llm_judge`."""

import asyncio
import json

import pytest

import streamval as sv
from streamval.errors import UsageError, ValidatorError
from streamval.testing import run_virtually
from tests.support.openai_server import openai_server
from tests.support.requirements import Answers
from tests.support.sources import Spoken


async def test_a_streaming_judge_is_asked_about_the_chunks_that_matter():
    backend = Answers(lambda text: ["no, it shouts"] if "!" in text else ["yes"])
    source = Spoken("You are. ", "It is. ", "You! ", "You too. ", asyncio.Event().wait)
    polite = sv.LLMaJRequirement("be calm", streaming=True, when=lambda text: "You" in text)
    result = await sv.Pipeline(source, requirements=[polite], validation_backend=backend).run("go")
    assert "It is." not in backend.asked
    assert backend.asked[:2] == ["You are.", "You!"]
    assert source.closed == 1
    assert result.text == "You are. It is."
    assert result.failures[0].reason == "judged not to meet: be calm (it shouts)"
    assert result.failures[0].chunk_index == 2


def test_a_streaming_judge_overlaps_by_max_concurrency():
    def spend(limit):
        backend = Answers(lambda _: ["yes"], delay=1.0)
        judge = sv.LLMaJRequirement("calm", streaming=True, max_concurrency=limit)
        source = Spoken(*(f"Number {n} is. " for n in range(8)))
        pipeline = sv.Pipeline(source, requirements=[judge], validation_backend=backend)
        result, seconds = run_virtually(pipeline.run("go"))
        assert result.success
        return backend.most_at_once, seconds

    assert spend(4) == (4, 3.0)  # 8 chunks in 2 rounds, and the whole at the end
    assert spend(1) == (1, 9.0)


async def test_a_streaming_judge_that_answers_nonsense_fails_closed():
    judge = sv.LLMaJRequirement("calm", streaming=True)
    result = await sv.Pipeline(
        Spoken("One. Two."), requirements=[judge], validation_backend=Answers(lambda _: ["hm"])
    ).run("go")
    assert result.text == ""
    assert "neither yes nor no" in result.failures[0].reason


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"description": " "}, "description"),
        ({"description": "x", "when": bool}, "streaming=True"),
        ({"description": "x", "validation_fn": bool}, "validation_fn"),
    ],
)
def test_a_judge_that_cannot_work_is_refused(options, message):
    with pytest.raises(UsageError, match=message):
        sv.LLMaJRequirement(**options)


ADAPTERS = {"requirement_check": {"lora": [{"id": 0, "scale": 1.0}]}}


@pytest.mark.parametrize(
    ("answer", "passed", "score"),
    [
        ({"requirement_likelihood": 0.51}, True, 0.51),
        ({"requirement_likelihood": 0.5}, False, 0.5),
        ({"requirement_check": {"score": 0.9}}, True, 0.9),
        ({"score": 0}, False, 0.0),
    ],
)
async def test_an_adapters_likelihood(answer, passed, score):
    backend = Answers(lambda _: [json.dumps(answer)], adapters=ADAPTERS)
    ctx = sv.types.Context().add("Say hello.").with_output("Hello.")
    result = await sv.requirements.ALoraRequirement("be kind").validate(backend, ctx)
    assert (bool(result), result.score) == (passed, score)
    asked = backend.requests[0]
    assert asked.options["lora"] == [{"id": 0, "scale": 1.0}]
    assert [turn.content for turn in asked.messages] == [
        "Say hello.",
        "Hello.",
        "Requirement: be kind",
    ]


@pytest.mark.parametrize("answer", ["yes", "{}", '{"score": "high"}', '{"score": 7}', '{"sco', ""])
async def test_a_malformed_adapter_answer_is_an_error(answer):
    backend = Answers(lambda _: [answer], adapters=ADAPTERS)
    with pytest.raises(ValidatorError, match="likelihood from 0 to 1"):
        await sv.requirements.ALoraRequirement("be kind").validate(
            backend, sv.types.Context().with_output("Hi.")
        )


async def test_without_the_adapter_the_judge_is_asked_with_a_warning():
    backend = Answers(lambda _: ["no"])
    with pytest.warns(UserWarning, match="no adapter 'requirement_check'"):
        result = await sv.requirements.ALoraRequirement("be kind").validate(
            backend, sv.types.Context().with_output("Hi.")
        )
    assert not result
    assert backend.asked == ["Hi."]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Pydantic serializer warnings")
@pytest.mark.parametrize(
    ("how", "asked"),
    [
        ("openai/checker", {"model": "checker"}),
        (
            {"extra_body": {"lora": [{"id": 0, "scale": 1.0}]}},
            {"model": "fine", "lora": [{"id": 0, "scale": 1.0}]},
        ),
    ],
    ids=["as vLLM names it", "as llama.cpp switches it on"],
)
async def test_litellm_asks_the_adapter_of_a_real_server(how, asked):
    async with openai_server() as server:
        backend = sv.LiteLLMBackend(
            "openai/fine", api_base=server.url, api_key="sk-x", adapters={"requirement_check": how}
        )
        with pytest.raises(ValidatorError, match="likelihood"):  # the server only counts
            await sv.requirements.ALoraRequirement("be kind").validate(
                backend, sv.types.Context().with_output("Hello.")
            )
    body = server.requests[0].body
    assert {name: body[name] for name in asked} == asked
    assert body["messages"][-1]["content"] == "Requirement: be kind"


def test_an_adapter_needs_a_description():
    with pytest.raises(UsageError, match="description"):
        sv.requirements.ALoraRequirement("")


async def test_the_words_of_a_judge_are_kept_on_a_pass_too():
    result = await sv.LLMaJRequirement("It is kind.").validate(
        sv.ScriptedBackend("Yes.\nIt is."), sv.types.Context().with_output("Thank you.")
    )
    assert (bool(result), result.reason) == (True, "Yes.")


def test_which_of_them_asks_an_adapter():
    assert sv.LLMaJRequirement("kind").use_aloras is False
    assert sv.requirements.ALoraRequirement("kind").use_aloras is True


@pytest.mark.parametrize(
    "answer",
    [
        [sv.Delta(reasoning="No, wait. "), "yes"],
        ["<think>No, no.\n", "It is ", "fine.</think>\n\nYes, it is."],
        ["<think>no</think>yes\n", *["and so on "] * 500],
    ],
)
async def test_the_thinking_of_a_judge_is_not_its_verdict(answer):
    judge = Spoken(*answer)
    kind = sv.LLMaJRequirement("It is kind.", backend=judge)
    result = await sv.Pipeline(Spoken("Hello."), requirements=[kind]).run("Greet me.")
    assert result.success
    assert judge.opened == judge.closed == 1


async def test_a_judge_has_a_backend_and_options_of_its_own():
    speaker, judge = Spoken("Hello."), Spoken("yes")
    kind = sv.LLMaJRequirement(
        "It is kind.", backend=judge, max_tokens=900, reasoning_effort="low", timeout=60
    )
    assert (await sv.Pipeline(speaker, requirements=[kind]).run("Greet me.")).success
    assert (speaker.opened, kind.timeout) == (1, 60)
    options = {"temperature": 0.0, "max_tokens": 900, "reasoning_effort": "low"}
    assert dict(judge.requests[0].options) == options
    plain = Spoken("yes")
    await sv.Pipeline(speaker, requirements=["It is kind."], validation_backend=plain).run("Go.")
    assert dict(plain.requests[0].options) == {"temperature": 0.0}
    with pytest.raises(UsageError, match="backend cannot be of type int"):
        sv.LLMaJRequirement("It is kind.", backend=5)


async def test_a_judge_that_refuses_our_options_is_asked_without_them_from_then_on():
    class Refusing(Spoken):
        model = "no-temperature"

        def script_of(self, request):
            refused = sv.errors.RefusedRequestError("temperature is not supported")
            return [refused] if "temperature" in request.options else ["yes"]

    judge = Refusing()
    kind = sv.LLMaJRequirement("It is kind.", backend=judge, max_tokens=9)
    pipeline = sv.Pipeline(Spoken("Hello."), requirements=[kind])
    for _ in range(2):
        assert (await pipeline.run("Greet me.")).success
    asked = [dict(request.options) for request in judge.requests]
    assert asked == [{"temperature": 0.0, "max_tokens": 9}, {"max_tokens": 9}, {"max_tokens": 9}]
    stubborn = sv.LLMaJRequirement("It is kind.", backend=judge, temperature=1)
    with pytest.raises(sv.errors.RefusedRequestError):
        await sv.Pipeline(Spoken("Hello."), requirements=[stubborn]).run("Greet me.")


async def test_of_a_judge_that_was_cut_off_while_it_thought_the_reason_says_so():
    judge = Spoken(sv.Delta(reasoning="Let me see."), sv.Delta(finish_reason="length"))
    kind = sv.LLMaJRequirement("It is kind.", backend=judge)
    result = await sv.Pipeline(Spoken("Hello."), requirements=[kind]).run("Greet me.")
    assert "give it a larger max_tokens" in str(result.failures[0])


@pytest.mark.parametrize(
    ("said", "passed"),
    [
        ("Well, yes it could be.\nBut rude.\n</think>\n\nNo, rude.", False),
        ("Is it rude?\nHello is not.\n</think>\n\nYes.", True),
        ("<think>No.</think>Yes, it is.", True),
    ],
)
async def test_thinking_whose_opening_tag_is_in_the_prompt_is_no_verdict(said, passed):
    judge = sv.ScriptedBackend(said, token_size=3)
    rule = sv.LLMaJRequirement("It is polite.", backend=judge)
    result = await sv.Pipeline(sv.ScriptedBackend("Hello."), requirements=[rule]).run("Go.")
    assert result.success is passed
