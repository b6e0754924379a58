import asyncio
import threading

import pytest
from reactivex import operators as ops

import streamval as sv
from streamval import bridge
from streamval.errors import DeltaTypeError, RunError, UsageError
from streamval.operators import only, rewrite
from tests.support.sources import Judge, Spoken, types, watch
from tests.support.virtual_time import run_virtually

# The ways to drive it


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


async def test_unsubscribing():
    seen = []
    run = sv.Pipeline(Spoken("One.")).start("go")
    subscription = run.subscribe(seen.append)
    run.subscribe(lambda event: subscription.dispose())
    await run
    assert types(seen) == ["started"]


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


# map


def test_map_keeps_order_and_the_task_limit():
    running = most = 0

    async def slow(prompt):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(int(prompt))
        running -= 1
        return [prompt]

    async def main(**options):
        pipeline = sv.Pipeline(sv.IterableBackend(slow))
        return [(p, r.text) async for p, r in pipeline.map(["3", "1", "2"], **options)]

    results, _ = run_virtually(main(task_limit=2))
    assert results == [("3", "3"), ("1", "1"), ("2", "2")]
    assert most == 2
    results, _ = run_virtually(main(ordered=False))
    assert [prompt for prompt, _ in results] == ["1", "2", "3"]


async def test_map_takes_an_async_iterable_and_raises_what_a_run_raises():
    async def prompts():
        yield "a"

    backend = Spoken("One.")
    assert [r.text async for _, r in sv.Pipeline(backend).map(prompts())] == ["One."]
    with pytest.raises(OSError, match="gone"):
        async for _ in sv.Pipeline(Spoken(OSError("gone"))).map(["a", "b"]):
            pass


@pytest.mark.parametrize("turns", range(0, 40, 3))
async def test_cancelling_a_map_cancels_its_runs(turns):
    backend = Spoken("One. ", 1000)

    async def drive():
        async for _ in sv.Pipeline(backend).map(["a", "b", "c"], task_limit=2):
            pass

    task = asyncio.create_task(drive())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert backend.opened == backend.closed


# Operators of the user's own


async def test_delta_and_chunk_operators():
    shout = ops.map(str.upper)
    pipeline = sv.Pipeline(
        sv.ScriptedBackend("call 555. now."),
        chunking="sentence",
        delta_operators=[shout],
        chunk_operators=[rewrite(lambda text: text.replace("555", "***"))],
    )
    events = await watch(pipeline.start("go"))
    chunks = [event for event in events if event.type == "chunk"]
    assert [chunk.text for chunk in chunks] == ["CALL ***.", "NOW."]
    done = next(event for event in events if event.type == "streaming_done")
    assert [done.full_text[c.start : c.end] for c in chunks] == ["CALL 555.", "NOW."]
    assert events[-1].full_text == "CALL ***. NOW."


@pytest.mark.parametrize("place", ["delta_operators", "chunk_operators"])
async def test_what_an_operator_raises_ends_the_run(place):
    backend = Spoken("One. ", "Two. ", "Three.")
    pipeline = sv.Pipeline(backend, **{place: [ops.map(lambda _: 1 / 0)]})
    run = pipeline.start("go")
    seen = []
    run.subscribe(seen.append)
    with pytest.raises(ZeroDivisionError):
        await run
    assert types(seen)[-2:] == ["error", "completed"]
    assert backend.closed == 1


async def test_tokens_come_before_any_check():
    pipeline = sv.Pipeline(Spoken("One. ", "Two."), requirements=[Judge()], emit_tokens=True)
    assert types(await watch(pipeline.start("go")))[:5] == [
        *("started", "token", "token", "quick_check", "chunk"),
    ]


async def test_without_requirements_there_are_no_checks():
    assert types(await watch(sv.Pipeline(Spoken("One.")).start("go"))) == [
        *("started", "chunk", "streaming_done", "completed"),
    ]


# Prompts and options


async def test_prompts_and_options_reach_the_backend():
    backend = Spoken("One.")
    backend.options = {"temperature": 0.1, "seed": 1}
    pipeline = sv.Pipeline(backend, options={"seed": 2, "top_p": 0.5})
    await pipeline.run([{"role": "system", "content": "S"}, sv.Message("user", "U")], seed=3)
    request = backend.requests[0]
    assert request.messages == (sv.Message("system", "S"), sv.Message("user", "U"))
    assert request.options == {"temperature": 0.1, "seed": 3, "top_p": 0.5}


@pytest.mark.parametrize(
    "prompt",
    ["", "  ", [], None, 7, [{"role": "robot", "content": "x"}], [{"content": "x"}], b"bytes"],
)
async def test_what_is_no_prompt_is_refused(prompt):
    with pytest.raises(UsageError):
        sv.Pipeline(Spoken("One.")).start(prompt)


# Wrong use


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"chunking": "sentense"}, "no chunking is called"),
        ({"requirements": [lambda text: True]}, "stream_check"),
        ({"requirements": "be kind"}, "must be a list"),
        ({"requirements": [sv.Requirement]}, "make an instance"),
        ({"requirements": [""]}, "empty string"),
        ({"retry": 3}, "Repair"),
        ({"max_pending_chunks": 0}, "max_pending_chunks"),
        ({"stall_timeout": 0}, "stall_timeout"),
        ({"chunk_operators": rewrite(str)}, "must be a list of operators"),
        ({"delta_operators": ["x"]}, "must be a list of operators"),
        ({"validation_backend": 7}, "backend cannot be 7"),
    ],
)
def test_wrong_arguments_are_told_before_anything_starts(options, says):
    backend = Spoken("One.")
    with pytest.raises(UsageError, match=says):
        sv.Pipeline(backend, **options)
    assert backend.opened == 0


@pytest.mark.parametrize("backend", [7, Spoken, ["x"]])
def test_what_is_no_backend_is_refused(backend):
    with pytest.raises(UsageError, match="backend cannot be"):
        sv.Pipeline(backend)


@pytest.mark.parametrize("delta", [None, b"bytes", ["text"], sv.Delta(None)])
async def test_a_backend_that_yields_no_text_is_told(delta):
    backend = Spoken("One. ", delta)
    run = sv.Pipeline(backend).start("go")
    seen = []
    run.subscribe(seen.append)
    with pytest.raises(DeltaTypeError, match="where text is expected"):
        await run
    assert types(seen)[-2:] == ["error", "completed"]
    assert backend.closed == 1


@pytest.mark.parametrize(("sink", "overflow"), [("x", "hold"), (print, "explode")])
async def test_wrong_subscribers_are_refused(sink, overflow):
    with pytest.raises(UsageError):
        sv.Pipeline(Spoken("One.")).start("go").subscribe(sink, overflow)


async def test_subscribing_to_a_run_that_is_over_is_told():
    run = sv.Pipeline(Spoken("One.")).start("go")
    await run
    with pytest.raises(RunError, match="over"):
        run.subscribe(print)


async def test_a_pipeline_used_from_two_event_loops_is_told():
    told = []

    async def elsewhere():
        with pytest.raises(RunError, match="another event loop"):
            await pipeline.run("go")
        told.append(True)

    pipeline = sv.Pipeline(Spoken("One. ", "Two. ", 1000))
    async with pipeline.start("go") as run:
        async for event in run:
            if event.type == "chunk":
                thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
                thread.start()
                await asyncio.to_thread(thread.join)
                break
    assert told == [True]


def test_one_loop_after_another_is_fine():
    pipeline = sv.Pipeline(sv.ScriptedBackend("One."))
    assert [asyncio.run(pipeline.run("go")).text for _ in range(2)] == ["One.", "One."]


async def test_attempts_tell_how_it_went():
    backend = Spoken(["One. ", "Bad. ", "x"], ["Two."])
    judge = Judge(lambda text: "fail" if text == "Bad." else "pass")
    result = await sv.Pipeline(backend, requirements=[judge], retry=sv.Repair()).run("go")
    first, second = result.attempts
    assert first.text == "One. Bad. x"
    assert first.failures == (sv.Failure("judge", "about Bad.", 1, lane=0),)
    assert (second.text, second.failures) == ("Two.", ())
    assert second.validations == (sv.ValidationResult(True),)
    assert result.validations == second.validations
    assert all(attempt.seconds >= 0 for attempt in result.attempts)
