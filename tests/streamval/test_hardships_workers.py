"""What an adversarial reader broke in the workers and the pump: each must not go wrong again."""

import asyncio
import sys

import pytest
from reactivex import Subject
from reactivex import operators as ops

import streamval as sv
from streamval.errors import DeltaTypeError, StreamBrokenError, ValidatorError
from streamval.operators import rewrite
from tests.support.sources import Judge, Spoken, types


async def test_own_chunks_are_cut_in_order_however_many_are_judged_at_once():
    go, seen = asyncio.Event(), []

    class Overlapping(sv.Requirement):
        async def stream_validate(self, chunk, *, backend, ctx):
            seen.append(chunk)
            if chunk == "Go now.":
                await go.wait()
            return sv.PartialValidationResult("fail" if "all said" in chunk else "pass")

    async def words(_):
        yield "Go now. We all "
        await asyncio.sleep(0.01)
        go.set()  # its judge is about to go on as several chunks come at once
        yield "said it: never say no. Bye. "

    judge = Overlapping("r", lambda _: True, chunking="sentence", max_concurrency=2)
    pipeline = sv.Pipeline(sv.IterableBackend(words), requirements=[judge], chunking="word")
    assert not (await pipeline.run("go")).success
    assert seen == ["Go now.", "We all said it: never say no. Bye."]


async def test_disposing_from_inside_a_validator_does_not_interrupt_the_sources_clean_up():
    stop, log = Subject(), []

    async def source(_):
        try:
            for n in range(5):
                yield f"w{n} "
                await asyncio.sleep(0)
        finally:
            await asyncio.sleep(0.001)
            log.append("closed")

    def stops(word):
        if word == "w2":
            stop.on_next(None)
        return True

    pipeline = sv.Pipeline(
        sv.IterableBackend(source),
        requirements=[sv.stream_check(stops)],
        chunking="word",
        chunk_operators=[ops.take_until(stop)],
    )
    await pipeline.run("go")
    assert log == ["closed"]


async def test_what_an_observer_raised_is_not_lost_where_closing_the_source_raises_too(reported):
    async def source(_):
        try:
            yield 5
        finally:
            raise OSError("closing")

    with pytest.raises(DeltaTypeError):
        await sv.Pipeline(sv.IterableBackend(source)).run("go")
    assert [str(report["exception"]) for report in reported] == ["closing"]


@pytest.mark.parametrize("waits", [True, False])
async def test_a_validator_that_cancels_its_own_task_is_an_error_not_a_hang(waits):
    async def cancels(text):
        if text == "Two.":
            asyncio.current_task().cancel()
            if waits:
                await asyncio.sleep(0)
        return "pass"

    pipeline = sv.Pipeline(
        Spoken("One. ", 0, "Two. ", 0, "Three. ", 0, "Four. "), requirements=[Judge(cancels)]
    )
    with pytest.raises(ValidatorError, match="cancelled the task that judges"):
        await pipeline.run("go")


async def test_a_source_that_cancels_its_own_task_is_an_error_not_a_hang():
    async def source(_):
        yield "One. "
        asyncio.current_task().cancel()
        await asyncio.sleep(0)

    with pytest.raises(StreamBrokenError, match="cancelled from inside"):
        await sv.Pipeline(sv.IterableBackend(source)).run("go")


async def test_an_operator_that_makes_no_text_of_a_chunk_is_an_error_and_the_run_completes():
    events = []
    run = sv.Pipeline(
        sv.ScriptedBackend("One. Two."), chunk_operators=[rewrite(lambda _: None)]
    ).start("go")
    run.subscribe(events.append)
    with pytest.raises(DeltaTypeError, match="chunk_operators gave a chunk whose text is NoneType"):
        await run
    assert types(events) == ["started", "error", "completed"]


async def test_cancelled_from_inside_a_pass_by_on_error_releases_what_was_held():
    class Holds(sv.Requirement):
        async def stream_validate(self, chunk, *, backend, ctx):
            if chunk == "Two.":
                future = asyncio.get_running_loop().create_future()
                future.cancel()
                await future
            return sv.PartialValidationResult("pass" if chunk == "One." else "unknown")

    judge = Holds("r", lambda _: False, on_error="pass", hold=True)
    result = await sv.Pipeline(
        sv.ScriptedBackend("One. Two. Three. Four"), requirements=[judge]
    ).run("go")
    assert result.text == "One. Two."


async def test_a_validator_that_awaits_nonsense_is_judged_by_its_on_error():
    class Nonsense:
        def __await__(self):
            yield 42

    async def awaits(_):
        await Nonsense()

    result = await sv.Pipeline(
        sv.ScriptedBackend("One. Two."), requirements=[Judge(awaits, on_error="pass")]
    ).run("go")
    assert result.success


@pytest.mark.skipif(sys.version_info < (3, 12), reason="there are no eager tasks before 3.12")
async def test_with_eager_tasks_a_run_does_the_same():
    async def late(_):
        await asyncio.sleep(0)
        return "pass"

    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
    try:
        for deltas in (["One. ", "Two. "], ["One. ", 0.001, "Two. ", 0.001]):
            result = await sv.Pipeline(Spoken(*deltas), requirements=[Judge(), Judge(late)]).run(
                "go"
            )
            assert (result.success, result.text) == (True, "One. Two.")
    finally:
        asyncio.get_running_loop().set_task_factory(None)
