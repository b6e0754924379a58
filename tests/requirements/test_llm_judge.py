"""Tests of `streamval.requirements.llm_judge`."""

import asyncio

import pytest

import streamval as sv
from streamval.errors import UsageError
from tests.support.requirements import Answers
from tests.support.sources import Spoken
from tests.support.virtual_time import run_virtually


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
