"""Tests of `streamval.pipeline.instrument`."""

import asyncio

import pytest

import streamval as sv
from streamval.errors import UsageError
from tests.support.sources import Spoken, types


async def test_every_run_is_seen_until_the_handle_is_closed():
    seen = []
    pipeline = sv.Pipeline(sv.ScriptedBackend("One."))
    handle = sv.instrument(seen.append)
    results = [result async for _, result in pipeline.map(["a", "b"])]
    stream = await sv.stream_with_chunking("go", sv.ScriptedBackend("Two."), sv.types.SimpleContext())  # fmt: skip
    await stream.acomplete()
    assert all(result.success for result in results)
    assert len({event.run_id for event in seen}) == 3
    assert types(seen).count("completed") == 3
    handle.close()
    handle.close()
    await pipeline.run("c")
    assert len({event.run_id for event in seen}) == 3


@pytest.mark.parametrize("wait", [False, True])
async def test_a_run_that_is_under_way_sends_nothing_more(wait):
    gate, seen = asyncio.Event(), []

    async def slow(event):
        seen.append(event)

    backend = Spoken("One. ", "Two. ", gate.wait, "Three. ", "Four.")
    run = sv.Pipeline(backend).start("go")
    async with sv.instrument(slow if wait else seen.append):
        run.begin()
        while len(seen) < 2:
            await asyncio.sleep(0)
    gate.set()
    assert (await run).success
    assert len(seen) == 2


async def test_one_that_raises_hurts_nobody_and_is_named(reported):
    def broken(event):
        raise LookupError(event.type)

    seen = []
    with sv.instrument(broken), sv.instrument(seen.append):
        assert (await sv.Pipeline(sv.ScriptedBackend("One.")).run("go")).success
    assert types(seen)[-1] == "completed"
    assert "broken raised" in reported[0]["message"]


def test_what_is_no_sink_is_refused_at_once():
    with pytest.raises(UsageError, match="a subscriber is a function"):
        sv.instrument("log")
    with pytest.raises(UsageError, match="overflow"):
        sv.instrument(print, overflow="lose")


async def test_opentelemetry_in_one_line():
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with sv.instrument(sv.sinks.OpenTelemetry(tracer_provider=provider)):
        pipeline = sv.Pipeline(sv.ScriptedBackend("One."))
        await asyncio.gather(*(pipeline.run("go") for _ in range(5)))
    assert [span.name for span in exporter.get_finished_spans()].count("streamval.run") == 5
