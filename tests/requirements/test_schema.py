"""Tests of `streamval.requirements.schema`."""

import asyncio

import pytest
from pydantic import BaseModel, Field

import streamval as sv
from streamval.errors import UsageError
from streamval.structured.schema import Schema
from tests.support.people import Team
from tests.support.sources import Judge, Spoken, fails_on, watch


class Town(BaseModel):
    name: str
    people: int = Field(ge=0)
    rivers: list[str] = []


TEXT = '{"name": "Rome", "people": 3, "rivers": ["Tiber", "Aniene"]}'


def deltas(text, size=4):
    return [text[n : n + size] for n in range(0, len(text), size)]


async def test_the_model_is_cut_at_the_first_wrong_value():
    text = '{"name": "Rome", "people": -3, "rivers": [' + '"x", ' * 500
    backend = Spoken(*deltas(text), asyncio.Event().wait)
    result = await sv.Pipeline(backend, format=Town).run("A city.")
    assert not result.success
    assert result.parsed is None
    reason = "$.people: Input should be greater than or equal to 0, not -3"
    assert result.failures[0].reason == reason
    assert result.text in text[:30]
    assert backend.closed == 1
    assert len(result.attempts[0].text) < 40


async def test_a_wrong_enum_is_noticed_in_the_middle_of_the_word():
    result = await sv.Pipeline(Spoken(*deltas('{"name": 7, "people": 1}', 1)), format=Town).run("x")
    assert result.attempts[0].text == '{"name": 7,'


async def test_other_requirements_and_chunkings_go_with_it():
    judge = Judge()
    run = sv.Pipeline(
        Spoken(*deltas(TEXT)), format=Town, requirements=[judge], chunking="json"
    ).start("A city.")
    events = await watch(run)
    assert judge.asked[:2] == ["Rome", "3"]
    assert (await run).success
    assert {len(e.results) for e in events if e.type == "quick_check"} == {2}
    failing = sv.Pipeline(
        Spoken(*deltas(TEXT)), format=Town, requirements=[Judge(fails_on("3"))], chunking="json"
    )
    result = await failing.run("A city.")
    assert result.failures[0].chunk_index == 1


async def test_json_that_was_cut_off_is_said_to_be_so():
    """It said "EOF while parsing a string"."""
    pieces = ['{"name": "Ro', sv.Delta("me", finish_reason="length")]
    result = await sv.Pipeline(Spoken(*pieces), format=Town).run("A city.")
    assert [one.reason for one in result.failures] == [
        "the JSON is not complete: cut off at 2 tokens"
    ]


def test_what_is_no_type_is_refused_at_once():
    with pytest.raises(UsageError, match="pydantic cannot check the type"):
        sv.Pipeline(Spoken(TEXT), format=object())


class City(BaseModel):
    name: str
    people: int = Field(ge=0)


@pytest.mark.parametrize("chunking", ["sentence", "json", "word"])
@pytest.mark.parametrize("size", [1, 3, 1000])
async def test_a_repair_never_keeps_the_beginning_of_a_value_that_failed(size, chunking):
    bad, good = '{"name": "Rome", "people": -3, "x": 1}', '{"name": "Rome", "people": 3}'

    class Continues(Spoken):
        def script_of(self, request):
            text = bad if request.attempt == 1 else good.removeprefix(request.prefix or "")
            return [text[n : n + size] for n in range(0, len(text), size)]

    backend = Continues(supports_prefix=True)
    result = await sv.Pipeline(backend, format=City, retry=sv.Repair(), chunking=chunking).run("x")
    assert good.startswith(backend.requests[1].prefix or "")
    assert result.success, result.failures
    assert result.parsed == City(name="Rome", people=3)


ANN = '{"name": "Ann", "age": 31}'


@pytest.mark.parametrize("chunking", [None, "word", "sentence", "json", "line"])
async def test_it_takes_chunks_of_any_kind(chunking):
    text = f'{{"people": [{ANN}, {{"name": "Bob Lee. He is. 30", "age": 200}}, {ANN}, {ANN}]}}'
    backend = Spoken(*(text[n : n + 4] for n in range(0, len(text), 4)))
    result = await sv.Pipeline(backend, requirements=[sv.matches(Team)], chunking=chunking).run("x")
    assert not result.success
    assert "$.people[1].name: " in result.failures[0].reason
    good = text.replace("Bob Lee. He is. 30", "Bob  Lee.").replace("200", "20")
    result = await sv.Pipeline(
        sv.ScriptedBackend(good), requirements=[sv.matches(Team)], chunking=chunking
    ).run("x")
    assert result.success, result.failures


async def test_holding_delivers_nothing_before_all_is_right():
    bad = '{"people": [{"name": "Ann", "age": 31}, {"age": "x"}]}'
    requirement = sv.matches(Team, hold=True)
    result = await sv.Pipeline(
        sv.ScriptedBackend(bad), requirements=[requirement], chunking=None
    ).run("x")
    assert result.text == ""


async def test_a_repair_goes_on_inside_the_json():
    first = ['{"people": [', '{"name": "Ann", "age": 31}, ', '{"name": "Bob", "age": ', '"old"']
    backend = Spoken(first, ["7", "}", "]}"], supports_prefix=True)
    pipeline = sv.Pipeline(
        backend, requirements=[sv.matches(Team)], chunking=None, retry=sv.Repair()
    )
    result = await pipeline.run("x")
    assert result.success
    assert Schema(Team).parse(result.text).people[1].age == 7
    assert backend.requests[1].prefix == "".join(first[:3]).rstrip()


async def test_valid_json():
    for text, success in (('{"a": [1, 2]}', True), ('{"a": [1 2]}', False), ("none", False)):
        result = await sv.Pipeline(
            sv.ScriptedBackend(text), requirements=[sv.valid_json()], chunking=None
        ).run("x")
        assert result.success is success
    assert await sv.valid_json().validate(None, sv.types.Context().with_output("42"))


async def test_json_that_breaks_off_is_found_at_the_end():
    result = await sv.Pipeline(
        sv.ScriptedBackend('{"people": ['), requirements=[sv.matches(Team)], chunking=None
    ).run("x")
    assert "EOF" in result.failures[0].reason


class Counted(BaseModel):
    a: int


@pytest.mark.parametrize("chunking", ["sentence", None, "json", "line", "word"])
@pytest.mark.parametrize("size", [1, 3, 99])
@pytest.mark.parametrize(
    "text",
    ['{"a": 1}, "that is it"', '{"a": 1} "', 'Options [1, 2] are: {"a": 1}', '{"a": 1}{"a": "x'],
)
async def test_what_stands_around_the_json_is_skipped_however_it_is_cut(text, size, chunking):
    deltas = [text[n : n + size] for n in range(0, len(text), size)]
    seen = []
    lenient = sv.matches(Counted, text_around=True)
    run = sv.Pipeline(Spoken(*deltas), format=lenient, chunking=chunking).start("x")
    run.subscribe(seen.append)
    result = await run
    assert (result.success, result.parsed) == (True, Counted(a=1))
    assert [e.value for e in seen if isinstance(e, sv.PartialObjectEvent)] == [1, {"a": 1}]
