"""Tests of `streamval.requirements.alora`."""

import json

import pytest

import streamval as sv
from streamval.errors import UsageError, ValidatorError
from tests.support.openai_server import openai_server
from tests.support.requirements import Answers

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
    ctx = sv.Context().add("Say hello.").with_output("Hello.")
    result = await sv.ALoraRequirement("be kind").validate(backend, ctx)
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
        await sv.ALoraRequirement("be kind").validate(backend, sv.Context().with_output("Hi."))


async def test_without_the_adapter_the_judge_is_asked_with_a_warning():
    backend = Answers(lambda _: ["no"])
    with pytest.warns(UserWarning, match="no adapter 'requirement_check'"):
        result = await sv.ALoraRequirement("be kind").validate(
            backend, sv.Context().with_output("Hi.")
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
            await sv.ALoraRequirement("be kind").validate(
                backend, sv.Context().with_output("Hello.")
            )
    body = server.requests[0].body
    assert {name: body[name] for name in asked} == asked
    assert body["messages"][-1]["content"] == "Requirement: be kind"


def test_an_adapter_needs_a_description():
    with pytest.raises(UsageError, match="description"):
        sv.ALoraRequirement("")
