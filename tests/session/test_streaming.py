"""Tests of `streamval.session.streaming`."""

import asyncio

import pytest

import streamval as sv
from streamval.errors import RunError, StallError, StreamBrokenError, UsageError
from tests.support.sources import Judge, Spoken, fails_on, types


async def started(*deltas, **options):
    backend = Spoken(*deltas)
    result = await sv.stream_with_chunking("go", backend, sv.types.SimpleContext(), **options)
    return backend, result


async def all_of(iterator):
    return [item async for item in iterator]


async def test_chunks_events_and_the_end():
    judge = Judge("unknown")
    _, result = await started("One. T", "wo. Thr", "ee", requirements=[judge])
    chunks, events = await asyncio.gather(all_of(result.astream()), all_of(result.events()))
    await result.acomplete()
    assert chunks == ["One.", "Two.", "Three"]
    assert types(events) == [
        "started",
        *["quick_check", "chunk"] * 3,
        "streaming_done",
        "full_validation",
        "completed",
    ]
    assert result.completed
    assert result.full_text == str(result.as_thunk) == "One. Two. Three"
    assert [bool(v) for v in result.final_validations] == [True]
    assert (result.failure_reason, result.streaming_failures) == (None, [])


async def test_it_begins_at_once_and_keeps_what_nobody_has_read_yet():
    _, result = await started("One. Two. ", requirements=[Judge()])
    await result.acomplete()
    assert await all_of(result.astream()) == ["One.", "Two."]
    assert types(await all_of(result.events()))[-1] == "completed"


async def test_a_failure_stops_the_model_and_only_good_text_is_delivered():
    strict, calm = Judge(fails_on("Bad."), "strict"), Judge("pass", "calm")
    backend, result = await started(
        "Good. ", "Bad. ", "More. ", asyncio.Event().wait, requirements=[calm, strict]
    )
    assert await all_of(result.astream()) == ["Good."]
    await result.acomplete()
    assert backend.closed == 1
    assert not result.completed
    assert result.full_text == "Good."
    assert result.streaming_failures == [
        (strict, sv.PartialValidationResult("fail", reason="about Bad."))
    ]
    assert result.failure_reason == "strict: about Bad."
    assert result.final_validations == []


async def test_a_failed_final_validation_is_not_a_streaming_failure():
    _, result = await started("One.", requirements=[Judge(whole=False)])
    await result.acomplete()
    assert result.completed
    assert result.streaming_failures == []
    assert not result.final_validations[0]


@pytest.mark.parametrize("name", ["astream", "events"])
async def test_each_stream_has_one_consumer(name):
    _, result = await started("One.")
    first = getattr(result, name)()
    with pytest.raises(RunError, match="one consumer"):
        getattr(result, name)()
    assert await all_of(first)
    await result.acomplete()


async def test_an_exception_is_raised_once_by_astream():
    _, result = await started("One. ", StreamBrokenError("gone"))
    with pytest.raises(StreamBrokenError):
        await all_of(result.astream())
    await result.acomplete()
    assert not result.completed


async def test_an_exception_is_raised_once_by_acomplete():
    _, result = await started(
        "One. Two. Three f", StreamBrokenError("gone"), requirements=[Judge()]
    )
    with pytest.raises(StreamBrokenError):
        await result.acomplete()
    await result.acomplete()
    assert await all_of(result.astream()) == ["One.", "Two."]
    assert types(await all_of(result.events()))[-2:] == ["error", "completed"]


async def test_the_thunk_is_there_at_the_end_and_not_before():
    gate = asyncio.Event()
    _, result = await started("One. ", gate.wait, "Two.")
    with pytest.raises(RunError, match="acomplete"):
        _ = result.as_thunk
    gate.set()
    await result.acomplete()
    assert result.as_thunk.value == "One. Two."


async def test_full_text_grows_with_what_is_delivered():
    gate, judged = asyncio.Event(), asyncio.Event()

    async def verdict(chunk):
        if chunk == "Two.":
            judged.set()
            await gate.wait()
        return "pass"

    _, result = await started("One. ", "Two. ", "Three.", requirements=[Judge(verdict)])
    await judged.wait()
    assert result.full_text == "One."
    gate.set()
    await result.acomplete()
    assert result.full_text == "One. Two. Three."


async def test_a_cancellation_from_outside_releases_every_consumer():
    backend, result = await started("One. Two ", asyncio.Event().wait)
    before = asyncio.all_tasks() - {asyncio.current_task()}
    chunks = asyncio.create_task(all_of(result.astream()))
    events = asyncio.create_task(all_of(result.events()))
    complete = asyncio.create_task(result.acomplete())
    while not backend.said:
        await asyncio.sleep(0)
    for task in before:
        task.cancel()
    done = await asyncio.gather(chunks, events, complete, return_exceptions=True)
    assert backend.closed == 1
    assert types(done[1])[-1] == "completed"
    cancelled = [one for one in (done[0], done[2]) if isinstance(one, asyncio.CancelledError)]
    assert len(cancelled) == 1


async def test_cancelling_it():
    backend, result = await started("One. Two ", asyncio.Event().wait)
    while not backend.said:
        await asyncio.sleep(0)
    await result.cancel()
    assert backend.closed == 1
    await result.acomplete()
    assert not result.completed


async def test_a_copy_that_raises_does_so_before_anything_is_generated():
    class Uncopyable(sv.Requirement):
        def __copy__(self):
            raise LookupError("no copies")

    backend = Spoken("One.")
    with pytest.raises(LookupError, match="no copies"):
        await sv.stream_with_chunking(
            "go", backend, sv.types.Context(), requirements=[Uncopyable("x")]
        )
    assert backend.opened == 0


async def test_an_output_on_its_way_can_be_judged_and_a_computed_one_cannot():
    backend = Spoken("One. Two. ", "Three.")
    thunk, ctx = await backend.generate_from_context("go", sv.types.Context())
    result = await sv.stream_with_chunking(thunk, backend, ctx)
    assert await all_of(result.astream()) == ["One.", "Two.", "Three."]
    assert thunk.value == "One. Two. Three."
    with pytest.raises(UsageError, match="computed already"):
        await sv.stream_with_chunking(thunk, backend, ctx)


async def test_the_conversation_reaches_backend_and_requirements():
    seen = []

    class Looks(Judge):
        async def validate(self, backend, ctx, **_):
            seen.append([turn.content for turn in ctx.messages])
            return sv.ValidationResult(True)

    backend = Spoken("One.")
    ctx = sv.types.ChatContext().add("before")
    result = await sv.stream_with_chunking("now", backend, ctx, requirements=[Looks()])
    await result.acomplete()
    assert [turn.content for turn in backend.requests[0].messages] == ["before", "now"]
    assert seen == [["before", "now"]]


async def test_stall_timeout_through_model_options():
    _, result = await started("One. ", asyncio.Event().wait, model_options={"stall_timeout": 0.05})
    with pytest.raises(StallError):
        await result.acomplete()


async def test_judges_can_ask_another_backend():
    judge = sv.IterableBackend(lambda prompt: ["no"])
    _, result = await started("One.", requirements=["be kind"], validation_backend=judge)
    await result.acomplete()
    assert not result.final_validations[0]


async def test_each_requirement_is_copied_once():
    copies = []

    class Counted(Judge):
        def __copy__(self):
            copies.append(backend.opened)
            return super().__copy__()

    backend = Spoken("One. Two.")
    result = await sv.stream_with_chunking(
        "go", backend, sv.types.Context(), requirements=[Counted()]
    )
    await result.acomplete()
    assert copies == [0]  # once, and nothing had been asked


class Eager(Spoken):
    """Begins to generate when it is asked, and not when its output is read."""

    async def generate_from_context(self, action, ctx, **options):
        self.opened += 1
        return await super().generate_from_context(action, ctx, **options)


@pytest.mark.parametrize(
    "wrong",
    [{"chunking": "nonsense"}, {"requirements": [5]}, {"model_options": {"stall_timeout": 0}}],
)
async def test_wrong_arguments_are_refused_before_the_backend_is_asked(wrong):
    backend = Eager("One.")
    with pytest.raises((UsageError, TypeError)):
        await sv.stream_with_chunking("go", backend, sv.types.Context(), **wrong)
    with pytest.raises(UsageError, match="prompt is empty"):
        await sv.stream_with_chunking(" ", backend, sv.types.Context())
    assert backend.opened == 0


async def test_the_thunk_knows_its_generation():
    end = sv.Delta("Two.", usage=sv.types.Usage(7, 3, source="backend"), finish_reason="length")
    _, result = await started("One. ", end)
    await result.acomplete()
    known = result.as_thunk.generation
    assert (known.model, known.finish_reason, known.cancelled) == ("faulty", "length", False)
    assert known.usage == sv.types.Usage(7, 3, source="backend")


async def test_the_thunk_of_a_failure_knows_that_it_was_cancelled():
    _, result = await started(
        "Bad. ", "More. ", asyncio.Event().wait, requirements=[Judge(fails_on("Bad."))]
    )
    await result.acomplete()
    known = result.as_thunk.generation
    assert (known.cancelled, known.finish_reason) == (True, None)


async def test_a_refusal_is_no_success():
    _, result = await started(
        sv.Delta(refusal="I will "), sv.Delta(finish_reason="stop", refusal="not.")
    )
    events = await all_of(result.events())
    await result.acomplete()
    assert result.as_thunk.generation.refusal == "I will not."
    assert not events[-1].success


async def test_cancelled_while_it_begins():
    copying = asyncio.Event()

    class Slow(Eager):
        async def generate_from_context(self, action, ctx, **options):
            copying.set()
            return await super().generate_from_context(action, ctx, **options)

    backend = Slow("One. ", asyncio.Event().wait)
    beginning = asyncio.create_task(sv.stream_with_chunking("go", backend, sv.types.Context()))
    await asyncio.sleep(0)
    beginning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await beginning
    assert backend.opened == backend.closed


def sixty():
    """Sixty deltas, one a turn of the loop."""
    return Spoken(*[part for n in range(60) for part in (f"This is {n}. ", 0)])


@pytest.mark.parametrize("how", ["left", "dropped", "dropped while events are read"])
async def test_left_or_dropped_it_closes_its_backend(how):
    backend = sixty()

    async def read_two():
        result = await sv.stream_with_chunking("go", backend, sv.types.SimpleContext())
        items = result.events() if "events" in how else result.astream()
        if how == "left":
            async with result:
                await anext(items)
                await anext(items)
            assert backend.closed == 1
        else:
            await anext(items)
            del result
            await anext(items)  # what is being read is not dropped yet

    await read_two()
    while not backend.closed:
        await asyncio.sleep(0)
    assert backend.said < 30


async def test_an_output_that_a_backend_had_computed_before_is_refused_at_the_call():
    class Cached(sv.Backend):
        model = "cached"

        async def stream(self, request):
            yield "never"

        async def generate_from_context(self, action, ctx, **_):
            return sv.types.ModelOutputThunk("From the cache."), ctx

    with pytest.raises(UsageError, match="computed already"):
        await sv.stream_with_chunking("go", Cached(), sv.types.SimpleContext())
