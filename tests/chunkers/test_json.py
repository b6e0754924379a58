"""Tests of `streamval.chunkers.json`."""

import streamval as sv


async def test_values_after_a_repair_are_still_chunks_of_their_own():
    no_bob = sv.stream_check(lambda text: text != '"Bob"', "no Bob")
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
