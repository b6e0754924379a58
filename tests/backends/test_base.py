"""Tests of `streamval.backends.base`."""

import streamval as sv
from streamval import bridge
from streamval.types.context import Context
from tests.support.sources import Spoken


async def test_observe_is_the_token_stream_cold():
    backend = Spoken("a", "", sv.Delta("b"), sv.Delta(usage=sv.types.Usage(1, 2)))
    observable = backend.observe("go")
    assert backend.opened == 0
    assert [text async for text in bridge.iterate(observable)] == ["a", "b"]


async def test_generate_from_context():
    backend = Spoken("One. ", "Two.")
    ctx = Context((sv.types.Message("user", "before"),))
    thunk, after = await backend.generate_from_context("now", ctx, model_options={"seed": 3})
    assert not thunk.is_computed()
    assert backend.opened == 0
    assert await thunk.avalue() == "One. Two."
    assert (thunk.value, str(after.last_output())) == ("One. Two.", "One. Two.")
    assert [m.content for m in after.messages] == ["before", "now"]
    assert backend.requests[0].options == {"seed": 3}
    assert backend.closed == 1
