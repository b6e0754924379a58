"""Tests of `streamval.pipeline.delivered`."""

import json

import pytest
from pydantic import BaseModel, Field

import streamval as sv
from streamval.errors import DeltaTypeError
from streamval.operators import rewrite
from tests.support.sources import Spoken, types, watch


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


async def test_text_around_the_json_is_a_failure_unless_it_is_to_be_skipped():
    text = f"Here [it] is:\n```json\n{TEXT}\n```\nDone."
    lenient = sv.matches(City, text_around=True)
    result = await sv.Pipeline(Spoken(*deltas(text)), format=lenient).run("A city.")
    assert result.parsed.name == "Rome"
    result = await sv.Pipeline(Spoken(*deltas(text)), format=City).run("A city.")
    assert "there is text before it" in result.failures[0].reason
    result = await sv.Pipeline(Spoken(*deltas(f"{TEXT} {TEXT}")), format=City).run("A city.")
    assert result.failures[0].reason == "$: there is text after the JSON"


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


async def test_an_operator_that_makes_no_text_of_a_chunk_is_an_error_and_the_run_completes():
    events = []
    run = sv.Pipeline(
        sv.ScriptedBackend("One. Two."), chunk_operators=[rewrite(lambda _: None)]
    ).start("go")
    run.subscribe(events.append)
    with pytest.raises(DeltaTypeError, match="chunk_operators gave a chunk whose text is NoneType"):
        await run
    assert types(events) == ["started", "error", "completed"]
