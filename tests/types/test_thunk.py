"""Tests of `streamval.types.thunk`."""

import asyncio
import copy

import pytest

import streamval as sv
from streamval.errors import RunError
from tests.support.sources import Spoken


async def thunk_of(backend, **options):
    thunk, _ = await backend.generate_from_context("go", sv.types.Context(), model_options=options)
    return thunk


async def test_it_is_lazy_and_streams_once():
    backend = Spoken("One ", "two.")
    thunk = await thunk_of(backend)
    assert (thunk.is_computed(), thunk.value, backend.opened) == (False, None, 0)
    assert [text async for text in thunk] == ["One ", "two."]
    assert (thunk.value, str(thunk), await thunk.avalue()) == ("One two.",) * 3
    assert backend.opened == backend.closed == 1
    with pytest.raises(RunError, match="complete"):
        thunk.astream()


async def test_metadata():
    usage = sv.types.Usage(completion_tokens=7, source="backend")
    thunk = await thunk_of(Spoken(sv.Delta("One.", usage=usage), sv.Delta(finish_reason="stop")))
    await thunk.avalue()
    known = thunk.generation
    assert (known.model, known.usage, known.finish_reason) == ("faulty", usage, "stop")
    assert (known.deltas, known.cancelled) == (1, False)


async def test_a_thunk_with_neither_value_nor_backend_says_so():
    with pytest.raises(RunError, match="neither"):
        await sv.types.ModelOutputThunk().avalue()


async def test_a_complete_output_streams_nothing_and_leaving_cancels_the_rest():
    backend = Spoken("One. ", "Two. ", asyncio.Event().wait)
    thunk, _ = await backend.generate_from_context("go", sv.types.Context())
    async with thunk as entered:
        assert entered is thunk
        async for piece in thunk:
            assert piece == "One. "
            break
    assert backend.closed == 1
    assert thunk.cancelled
    assert copy.copy(thunk).cancelled
    whole = sv.types.ModelOutputThunk("All.")
    for _ in range(2):
        assert [piece async for piece in whole] == []
    async with whole:
        pass
    assert (whole.value, whole.cancelled) == ("All.", False)
    with pytest.raises(RunError, match="complete"):
        whole.astream()
