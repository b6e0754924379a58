"""`Pipeline(format=)`: typed output, told of and checked while it arrives."""

import asyncio
import json

import pytest
from pydantic import BaseModel, Field

import streamval as sv
from streamval.errors import UsageError
from tests.support.openai_server import openai_server
from tests.support.sources import Judge, Spoken, fails_on, types, watch


class City(BaseModel):
    name: str
    people: int = Field(ge=0)
    rivers: list[str] = []


TEXT = '{"name": "Rome", "people": 3, "rivers": ["Tiber", "Aniene"]}'


def deltas(text, size=4):
    return [text[n : n + size] for n in range(0, len(text), size)]


async def test_values_are_told_as_they_complete_and_the_result_is_parsed():
    run = sv.Pipeline(Spoken(*deltas(TEXT)), format=City).start("A city.")
    events = await watch(run)
    assert [(e.path, e.value) for e in events if e.type == "partial_object"] == [
        ("$.name", "Rome"),
        ("$.people", 3),
        ("$.rivers[0]", "Tiber"),
        ("$.rivers[1]", "Aniene"),
        ("$.rivers", ["Tiber", "Aniene"]),
        ("$", json.loads(TEXT)),
    ]
    result = await run
    assert result.success
    assert result.parsed == City(name="Rome", people=3, rivers=["Tiber", "Aniene"])
    name = next(n for n, e in enumerate(events) if e.type == "partial_object")
    assert events[name - 1].type == "chunk"


async def test_the_model_is_cut_at_the_first_wrong_value():
    text = '{"name": "Rome", "people": -3, "rivers": [' + '"x", ' * 500
    backend = Spoken(*deltas(text), asyncio.Event().wait)
    result = await sv.Pipeline(backend, format=City).run("A city.")
    assert not result.success
    assert result.parsed is None
    reason = "$.people: Input should be greater than or equal to 0, not -3"
    assert result.failures[0].reason == reason
    assert result.text in text[:30]
    assert backend.closed == 1
    assert len(result.attempts[0].text) < 40


async def test_a_wrong_enum_is_noticed_in_the_middle_of_the_word():
    result = await sv.Pipeline(Spoken(*deltas('{"name": 7, "people": 1}', 1)), format=City).run("x")
    assert result.attempts[0].text == '{"name": 7,'


async def test_a_repair_that_continues_keeps_the_values_and_one_that_restarts_begins_anew():
    bad = ['{"name": "Rome", ', '"people": ', "-3, "]
    for prefix, second in ((True, ["3}"]), (False, ['{"name": "Bonn", ', '"people": 3}'])):
        backend = Spoken(bad, second, supports_prefix=prefix)
        run = sv.Pipeline(backend, format=City, retry=sv.Repair()).start("A city.")
        told = [(e.path, e.value) for e in await watch(run) if e.type == "partial_object"]
        result = await run
        assert result.success
        assert told[-1] == ("$", result.parsed.model_dump(exclude_unset=True))
        assert [path for path, _ in told if path == "$.name"] == ["$.name"] * (1 if prefix else 2)


async def test_text_around_the_json_is_skipped():
    text = f"Here [it] is:\n```json\n{TEXT}\n```\nDone."
    result = await sv.Pipeline(Spoken(*deltas(text)), format=City).run("A city.")
    assert result.parsed.name == "Rome"


async def test_other_requirements_and_chunkings_go_with_it():
    judge = Judge()
    run = sv.Pipeline(
        Spoken(*deltas(TEXT)), format=City, requirements=[judge], chunking="json"
    ).start("A city.")
    events = await watch(run)
    assert judge.asked[:2] == ['"Rome"', "3"]
    assert (await run).success
    assert {len(e.results) for e in events if e.type == "quick_check"} == {2}
    failing = sv.Pipeline(
        Spoken(*deltas(TEXT)), format=City, requirements=[Judge(fails_on("3"))], chunking="json"
    )
    result = await failing.run("A city.")
    assert result.failures[0].chunk_index == 1


@pytest.mark.parametrize(
    ("wanted", "text", "parsed"),
    [
        (list[int], "[1, 2]", [1, 2]),
        (dict[str, list[City]], '{"a": []}', {"a": []}),
        (int, "42", 42),
        (str, '"word"', "word"),
    ],
)
async def test_any_type_will_do(wanted, text, parsed):
    assert (await sv.Pipeline(Spoken(*deltas(text)), format=wanted).run("x")).parsed == parsed


async def test_the_event_survives_json():
    event = sv.PartialObjectEvent(run_id="r", attempt=1, path="$.a", value={"b": [1, None, "c"]})
    assert sv.EventAdapter.validate_json(sv.EventAdapter.dump_json(event)) == event


async def test_without_a_format_nothing_is_parsed():
    run = sv.Pipeline(Spoken(TEXT)).start("x")
    assert "partial_object" not in types(await watch(run))
    assert (await run).parsed is None


def test_what_is_no_type_is_refused_at_once():
    with pytest.raises(UsageError, match="no type that pydantic can check"):
        sv.Pipeline(Spoken(TEXT), format=object())


# Real backends


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Pydantic serializer warnings")
async def test_litellm_is_asked_for_the_schema():
    async with openai_server() as server:
        backend = sv.LiteLLMBackend("openai/fine", api_base=server.url, api_key="sk-x")
        await sv.Pipeline(backend, format=City).run("A city.")
    (served,) = server.requests
    asked = served.body["response_format"]
    assert asked["json_schema"]["name"] == "City"
    assert asked["json_schema"]["schema"]["properties"]["people"]["minimum"] == 0


@pytest.mark.local_model
async def test_the_embedded_model_writes_by_a_grammar(local_backend):
    pipeline = sv.Pipeline(local_backend, format=City)
    result = await pipeline.run("The city of Rome, as JSON:\n", max_tokens=120)
    assert isinstance(result.parsed, City) or "EOF" in result.failures[0].reason
