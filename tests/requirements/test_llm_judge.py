"""Tests of `streamval.requirements.llm_judge`."""

import asyncio

import pytest

import streamval as sv
from streamval.errors import UsageError
from tests.support.sources import Spoken
from tests.support.virtual_time import run_virtually


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
