"""Tests of `streamval.chunkers.json`."""

import pytest

import streamval as sv
from streamval.chunkers import JSONChunker, JSONDeltaChunker
from tests.support.sources import Judge, Spoken


async def test_values_after_a_repair_are_still_chunks_of_their_own():
    no_bob = sv.stream_check(lambda text: text != "Bob", "no Bob")
    first, second = '{"people": ["Ann", "Bob"]}', ', "Bob", "Eve"], "tags": ["x", "y"]}'
    backend = sv.ScriptedBackend([first, second], supports_prefix=True)
    pipeline = sv.Pipeline(backend, requirements=[no_bob], chunking="json", retry=sv.Repair())
    result = await pipeline.run("x")
    assert not result.success
    assert result.text == '{"people": ["Ann"'
    good = sv.ScriptedBackend([first, second.replace("Bob", "Kim")], supports_prefix=True)
    run_ = sv.Pipeline(good, requirements=[no_bob], chunking="json", retry=sv.Repair()).start("x")
    chunks = [chunk.text async for chunk in run_.chunks()]
    assert chunks == ['"Ann"', '"Kim"', '"Eve"', "]", '"x"', '"y"', "]", "}"]


@pytest.mark.parametrize("make", [JSONChunker, JSONDeltaChunker])
async def test_a_lane_may_cut_json_its_own_way_under_a_repair_that_continues(make):
    backend = Spoken(['{"a": "x\\u00', "4w", ' more", "bad"', "}"], ["}"], supports_prefix=True)
    judges = [Judge(chunking=make()), Judge(lambda text: "fail" if "bad" in text else "pass")]
    result = await sv.Pipeline(
        backend, requirements=judges, chunking=None, retry=sv.Repair(loop_budget=2)
    ).run("x")
    assert result.success
    assert len(result.attempts) == 2
