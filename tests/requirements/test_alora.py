"""Tests of `streamval.requirements.alora`."""

import asyncio
import json

import pytest

import streamval as sv
from streamval.errors import UsageError, ValidatorError
from tests.support.openai_server import openai_server


class Answers(sv.Backend):
    """A judge that answers by a function of the judged text; remembers what it was asked."""

    model = "judge"

    def __init__(self, answer, delay=0.0, adapters=None):
        self.answer = answer
        self.delay = delay
        self.asked = []
        self.requests = []
        self.said = 0
        self.at_once = self.most_at_once = 0
        self.adapters = adapters or {}

    async def stream(self, request):
        self.requests.append(request)
        prompt = request.messages[-1].content
        lines = prompt.splitlines()
        markers = [n for n, line in enumerate(lines) if line.startswith("[text ")]
        text = "\n".join(lines[markers[0] + 1 : markers[1]]) if markers else prompt
        self.asked.append(text)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.delay:
                await asyncio.sleep(self.delay)
            for piece in self.answer(text):
                if callable(piece):
                    await piece()
                else:
                    self.said += 1
                    yield piece
        finally:
            self.at_once -= 1


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
