"""Tests of `streamval.backends.generation`."""

import asyncio

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import streamval as sv
from streamval.aio.inbox import BUFFER
from streamval.errors import RunError, StallError, StreamBrokenError
from tests.support.sources import Spoken


async def generated(*deltas):
    return (await Spoken(*deltas).generate_from_context("x", sv.types.SimpleContext()))[0]


async def test_a_consumer_that_never_took_a_step_takes_nothing():
    thunk = await generated("One.")

    async def eat():
        async for _ in thunk.astream():
            pass

    task = asyncio.create_task(eat())
    task.cancel()
    await asyncio.wait([task])
    thunk.astream()  # dropped
    assert await thunk.avalue() == "One."


async def test_a_consumer_may_ask_for_the_value():
    thunk = await generated(*(f"{n} " for n in range(300)))
    async for _ in thunk:
        assert (await thunk.avalue()).startswith("0 1 2")


async def test_one_who_stops_waiting_cuts_nobody_else_off():
    gate = asyncio.Event()
    thunk = await generated("One ", gate.wait, "two.")
    first, second = (asyncio.create_task(thunk.avalue()) for _ in range(2))
    for _ in range(5):
        await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    gate.set()
    assert await second == "One two."
    assert not thunk.generation.cancelled


async def test_the_last_one_who_stops_waiting_closes_the_backend():
    backend = Spoken("One ", asyncio.Event().wait)
    thunk, _ = await backend.generate_from_context("x", sv.types.SimpleContext())
    waiting = asyncio.create_task(thunk.avalue())
    while not backend.said:
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert backend.closed == 1


async def thunk_of(backend, **options):
    thunk, _ = await backend.generate_from_context("go", sv.types.Context(), model_options=options)
    return thunk


@pytest.fixture(scope="module")
def exporter():
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


@pytest.fixture
def spans(exporter):
    exporter.clear()
    return exporter.get_finished_spans


async def test_the_stream_has_one_consumer_and_the_value_can_be_awaited_beside_it():
    gate = asyncio.Event()
    thunk = await thunk_of(Spoken("One ", gate.wait, "two."))
    stream = thunk.astream()
    assert await anext(stream) == "One "
    with pytest.raises(RunError, match="one consumer"):
        thunk.astream()
    value = asyncio.create_task(thunk.avalue())
    await asyncio.sleep(0)
    gate.set()
    assert [text async for text in stream] == ["two."]
    assert await value == "One two."


async def test_cancelling_closes_the_backend_and_releases_everybody(spans):
    backend = Spoken("One ", asyncio.Event().wait)
    thunk = await thunk_of(backend)
    got = []

    async def consume():
        async for text in thunk.astream():
            got.append(text)

    consumer = asyncio.create_task(consume())
    waiting = asyncio.create_task(thunk.avalue())
    while not got:
        await asyncio.sleep(0)
    await thunk.cancel_generation()
    assert backend.closed == 1
    assert len(spans()) == 1
    await thunk.cancel_generation()  # once more: harmless
    await consumer
    assert await waiting == thunk.value == "One "
    assert thunk.generation.cancelled
    assert [dict(s.attributes)["streamval.cancelled"] for s in spans()] == [True]


async def test_cancelling_drops_what_waits_and_a_full_buffer_blocks_nobody():
    backend = Spoken(*(f"{n} " for n in range(10 * BUFFER)))
    thunk = await thunk_of(backend)
    stream = thunk.astream()
    await anext(stream)
    for _ in range(10):
        await asyncio.sleep(0)
    assert backend.said < 3 * BUFFER  # held back by the consumer that does not read on
    await thunk.cancel_generation()
    assert backend.closed == 1
    assert [text async for text in stream] == []


async def test_cancelling_before_the_beginning_generates_nothing():
    backend = Spoken("One.")
    thunk = await thunk_of(backend)
    await thunk.cancel_generation()
    assert (thunk.value, backend.opened) == ("", 0)
    assert [text async for text in thunk] == []


async def test_cancelling_after_the_end_changes_nothing():
    thunk = await thunk_of(Spoken("One."))
    await thunk.avalue()
    await thunk.cancel_generation()
    assert (thunk.value, thunk.generation.cancelled) == ("One.", False)


async def test_an_outer_cancellation_passes_after_the_clean_up(spans):
    closing, closed = asyncio.Event(), asyncio.Event()

    async def slowly():
        closing.set()
        await asyncio.shield(closed.wait())

    backend = Spoken("One ", asyncio.Event().wait, closing=slowly)
    thunk = await thunk_of(backend)
    stream = thunk.astream()
    await anext(stream)
    task = asyncio.create_task(thunk.cancel_generation())
    await closing.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    closed.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert backend.closed == 1
    assert len(spans()) == 1
    await stream.aclose()


async def test_leaving_the_stream_early_cancels_the_rest():
    backend = Spoken("One ", "two ", asyncio.Event().wait)
    thunk = await thunk_of(backend)
    stream = thunk.astream()
    await anext(stream)
    await stream.aclose()
    assert backend.closed == 1
    assert thunk.generation.cancelled


async def test_what_the_backend_raises_is_raised_and_there_is_no_value(spans):
    error = StreamBrokenError("gone")
    thunk = await thunk_of(Spoken("One ", error))
    with pytest.raises(StreamBrokenError):
        await thunk.avalue()
    with pytest.raises(StreamBrokenError):
        await thunk.avalue()
    assert thunk.value is None
    assert spans()[0].status.description == "gone"


async def test_the_stall_timeout_is_a_model_option():
    backend = Spoken("One ", asyncio.Event().wait)
    thunk = await thunk_of(backend, stall_timeout=0.05, seed=1)
    with pytest.raises(StallError):
        await thunk.avalue()
    assert backend.requests[0].options == {"seed": 1}
    assert backend.closed == 1
