"""Tests of `streamval.operators.cancel_on_fail`."""

import asyncio

from streamval import bridge
from streamval.operators import cancel_on_fail, chunk, fan_out, merge_tri_state
from tests.support.sources import Judge, Spoken, fails_on


async def test_cancel_on_fail_closes_the_source_and_lets_earlier_verdicts_drain():
    async def slow(chunk):
        await asyncio.sleep(0.01)
        return "pass"

    backend = Spoken(*["one ", "two ", "six "] * 100)
    checks = backend.observe("go").pipe(
        chunk("word"),
        cancel_on_fail(fan_out([Judge(slow), Judge(fails_on("six"))])),
        merge_tri_state(),
    )
    found = [(c.chunk.text, c.success) async for c in bridge.iterate(checks)]
    assert found == [("one", "pass"), ("two", "pass"), ("six", "fail")]
    assert backend.closed == 1
    assert backend.said < 10
