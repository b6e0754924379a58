"""Tests of `streamval.pipeline.run`."""

import asyncio

import pytest
from reactivex import Subject
from reactivex import operators as ops

import streamval as sv
from streamval import bridge
from streamval.operators import only
from tests.support.sources import Judge, PlainJudge, Spoken, types, watch


async def test_one_run_may_stop_another():
    stop = Subject()

    async def slow(_):
        await asyncio.sleep(0)
        return "pass"

    stopped = asyncio.ensure_future(
        sv.Pipeline(
            Spoken(*[f"Sentence {n}. " for n in range(50)], 1000),
            requirements=[Judge("pass")],
            delta_operators=[ops.take_until(stop)],
        ).run("go")
    )
    await asyncio.sleep(0.01)

    def press(_):
        stop.on_next(None)
        return "pass"

    await sv.Pipeline(Spoken("Stop."), requirements=[Judge(press)]).run("go")
    async with asyncio.timeout(60):
        assert (await stopped).success


async def test_cancelling_at_the_very_end_or_the_very_beginning():
    run = sv.Pipeline(Spoken("One.")).start("go")
    run.subscribe(lambda event: run.cancel() if event.type == "completed" else None)
    assert (await run).success

    run = sv.Pipeline(backend := Spoken("One.")).start("go")
    seen = []
    run.subscribe(seen.append)
    task = asyncio.ensure_future(watch(run))
    await asyncio.sleep(0)
    await run.cancel()
    await task
    assert types(seen) == ["started", "completed"]
    assert backend.opened == 0


async def test_cancelled_before_it_is_driven_a_run_generates_nothing():
    backend = Spoken("One.")
    run = sv.Pipeline(backend).start("go")
    run.cancel()
    result = await run
    assert (result.success, backend.opened) == (False, 0)


async def test_await_iterate_chunks_and_observe_see_the_same():
    pipeline = sv.Pipeline(sv.ScriptedBackend("One. Two."), requirements=[Judge()])
    result = await pipeline.run("go")
    events = await watch(pipeline.start("go"))
    chunks = [chunk.text async for chunk in pipeline.start("go").chunks()]
    observed = [event async for event in bridge.iterate(pipeline.observe("go"))]
    assert (result.success, result.text) == (True, "One. Two.")
    assert chunks == ["One.", "Two."]
    assert types(events) == types(observed)


async def test_iterating_then_awaiting_gives_the_result():
    run = sv.Pipeline(Spoken("One.")).start("go")
    await watch(run)
    assert (await run).text == run.text == "One."


async def test_events_is_hot_and_observe_is_cold():
    backend = Spoken("One.")
    pipeline = sv.Pipeline(backend)
    run = pipeline.start("go")
    seen = []
    run.events.pipe(only(sv.ChunkEvent)).subscribe(
        lambda event: seen.append(event.text), on_completed=lambda: seen.append("end")
    )
    assert backend.opened == 0
    await run
    assert seen == ["One.", "end"]
    observable = pipeline.observe("go")
    for _ in range(2):
        assert [e.type async for e in bridge.iterate(observable)][-1] == "completed"
    assert backend.opened == 3


async def test_an_error_reaches_observers_after_the_last_event():
    boom = OSError("gone")
    seen = []
    observable = sv.Pipeline(Spoken("One. ", boom)).observe("go")
    with pytest.raises(OSError, match="gone") as raised:
        async for event in bridge.iterate(observable):
            seen.append(event.type)
    assert raised.value is boom
    assert seen == ["started", "error", "completed"]


async def test_disposing_of_an_observation_cancels_the_run():
    backend = Spoken(*["One. "] * 1000)
    observable = sv.Pipeline(backend).observe("go").pipe(ops.take(3))
    assert len([event async for event in bridge.iterate(observable)]) == 3
    assert backend.closed == 1


async def test_a_run_left_without_being_driven_never_starts():
    backend = Spoken("One.")
    seen = []
    async with sv.Pipeline(backend).start("go") as run:
        run.subscribe(seen.append)
    assert (backend.opened, seen) == (0, [])


async def test_cancel_from_a_subscriber_and_from_outside():
    backend = Spoken("One. ", "Two. ", 1000, "Three. ")
    run = sv.Pipeline(backend).start("go")
    task = asyncio.ensure_future(watch(run))
    while not run.text:
        await asyncio.sleep(0)
    await run.cancel()
    assert backend.closed == 1
    events = await task
    assert (events[-1].success, events[-1].full_text) == (False, "One.")
    await run.cancel()  # once it is over there is nothing to do


async def test_cancelled_before_its_first_step_a_run_still_completes():
    run = sv.Pipeline(Spoken("One.")).start("go")
    seen = []
    run.subscribe(seen.append)
    task = asyncio.ensure_future(watch(run))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert types(seen)[-1:] == ["completed"]
    assert types(seen).count("completed") == 1


@pytest.mark.parametrize("at", ["token", "quick_check", "chunk"])
async def test_cancelled_from_a_subscriber_a_source_that_never_waits_is_not_read_on(at):
    backend = Spoken(*["One. "] * 300)
    seen = []
    run = sv.Pipeline(backend, requirements=[PlainJudge()], emit_tokens=True).start("x")
    run.subscribe(lambda event: seen.append(event.type))
    run.subscribe(lambda event: run.cancel() if event.type == at else None)
    assert not (await run).success
    assert backend.said < 5
    assert seen.count("chunk") <= 1
    assert seen[-1] == "completed"


async def test_the_attempt_of_a_chunk_tells_what_no_longer_stands():
    backend = sv.ScriptedBackend(["One. Two. Bad.", "Uno. Dos."])
    calm = sv.stream_check(lambda text: "Bad" not in text, "no bad")
    run = sv.Pipeline(backend, requirements=[calm], retry=sv.Repair()).start("go")
    stands = []
    async for chunk in run.chunks():
        if stands and chunk.attempt > stands[-1].attempt:
            del stands[chunk.index :]
        stands.append(chunk)
    assert [(chunk.attempt, chunk.text) for chunk in stands] == [(2, "Uno."), (2, "Dos.")]


async def test_chunk_operators_see_the_attempt_too():
    seen = []
    backend = sv.ScriptedBackend(["One. Bad.", " Two."], supports_prefix=True)
    calm = sv.stream_check(lambda text: "Bad" not in text, "no bad")
    await sv.Pipeline(
        backend,
        requirements=[calm],
        retry=sv.Repair(),
        chunk_operators=[ops.do_action(lambda chunk: seen.append((chunk.attempt, chunk.text)))],
    ).run("go")
    assert seen == [(1, "One."), (2, "Two.")]


async def iterates(run):
    async for _ in run:
        pass


async def takes_chunks(run):
    async for _ in run.chunks():
        pass


async def awaits(run):
    await run


async def awaits_in_a_task(run):
    await asyncio.create_task(awaits(run))


async def gathers(run):
    await asyncio.gather(awaits(run), asyncio.sleep(0))


@pytest.mark.parametrize("waits", [iterates, takes_chunks, awaits, awaits_in_a_task, gathers])
async def test_a_subscriber_that_would_wait_for_its_own_run_is_refused(waits, reported):
    async def sink(event):
        await waits(run)

    run = sv.Pipeline(Spoken("One. Two. Three.")).start("go")
    run.subscribe(sink)
    async with asyncio.timeout(60):  # it would wait for ever
        result = await run
    assert result.text == "One. Two. Three."
    assert "cannot wait for its own run" in str(reported[0]["exception"])
