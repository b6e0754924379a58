"""Tests of `streamval.pipeline.chunk_operators`."""

import asyncio
from dataclasses import replace

import pytest
import reactivex
from reactivex import operators as ops

import streamval as sv
from streamval import bridge
from streamval.errors import DeltaTypeError, UsageError
from streamval.operators import stateful
from streamval.pipeline.chunk_operators import ChunkOperators
from streamval.testing import run_virtually
from tests.support.sources import Judge, Spoken, types, watch


def numbered(as_string=True):
    """Put a number before each chunk."""

    def start(emit):
        count = 0

        def on_next(chunk):
            nonlocal count
            count += 1
            text = f"{count}. {chunk.text}"
            emit(text if as_string else replace(chunk, text=text))

        return on_next

    return stateful(start)


def four_sentences(mode):
    """A pipeline whose third sentence is wrong the first time."""
    continues = mode == "continue"
    second = [" Three. ", "Four."] if continues else ["Uno. ", "Due. ", "Tre."]
    backend = Spoken(["One. ", "Two. ", "Bad! ", "Never."], second, supports_prefix=continues)
    calm = sv.stream_check(lambda text: not text.endswith("!"), "stay calm")
    return sv.Pipeline(
        backend, requirements=[calm], retry=sv.Repair(mode=mode), chunk_operators=[numbered()]
    )


async def test_through_a_repair_that_continues_they_keep_their_state():
    result = await four_sentences("continue").run("go")
    assert (result.success, result.text) == (True, "1. One. 2. Two. 3. Three. 4. Four.")


async def test_a_restart_subscribes_them_anew():
    run = four_sentences("restart").start("go")
    events = await watch(run)
    assert run.text == "1. Uno. 2. Due. 3. Tre."
    assert [e.text for e in events if e.type == "chunk"] == [
        "1. One.",
        "2. Two.",
        "1. Uno.",
        "2. Due.",
        "3. Tre.",
    ]


async def test_what_they_hold_is_flushed_once_at_the_very_end():
    pairs = [ops.map(lambda chunk: chunk.text), ops.buffer_with_count(3), ops.map(" + ".join)]
    pipeline = four_sentences("continue")
    pipeline = sv.Pipeline(
        pipeline.backend,
        requirements=pipeline.requirements,
        retry=pipeline.retry,
        chunk_operators=pairs,
    )
    run = pipeline.start("go")
    events = await watch(run)
    chunks = [e.chunk() for e in events if e.type == "chunk"]
    assert run.text == "One. + Two. + Three. Four."
    assert [(c.index, c.start, c.end, c.separator) for c in chunks] == [(2, 0, 16, ""), (3, 17, 22, " ")]  # fmt: skip
    assert types(events)[-3:] == ["full_validation", "chunk", "completed"]


async def test_strings_stand_for_the_chunks_that_came_in():
    """Several for one, one for several, and late: no word is glued to the next."""
    backend = sv.ScriptedBackend("One is. Two is. Three is.")

    async def text_of(*operators):
        return (await sv.Pipeline(backend, chunk_operators=operators).run("go")).text

    def in_two(emit):
        return lambda chunk: (emit(chunk.text[:3]), emit(chunk.text[3:]))

    assert await text_of(stateful(in_two)) == "One is. Two is. Three is."
    late = [ops.delay(0.01), ops.map(lambda chunk: chunk.text.upper())]
    assert await text_of(*late) == "ONE IS. TWO IS. THREE IS."
    joined = [ops.buffer_with_time(5), ops.map(lambda some: " ".join(c.text for c in some))]
    assert await text_of(*joined) == "One is. Two is. Three is."
    assert await text_of(ops.start_with("First:")) == "First:One is. Two is. Three is."
    mixed = ops.map(lambda chunk: chunk if chunk.index % 2 else chunk.text)
    assert await text_of(mixed) == "One is. Two is. Three is."


async def test_a_time_operator_lives_through_attempts():
    async def main():
        pipeline = four_sentences("continue")
        pipeline = sv.Pipeline(
            pipeline.backend,
            requirements=pipeline.requirements,
            retry=pipeline.retry,
            chunk_operators=[ops.delay(5), numbered(as_string=False)],
        )
        return await pipeline.run("go")

    result, seconds = await asyncio.to_thread(lambda: run_virtually(main()))
    assert result.text == "1. One. 2. Two. 3. Three. 4. Four."
    assert seconds == pytest.approx(5)


async def test_operators_that_never_subscribe_hold_the_source_back():
    backend = Spoken(*["One. "] * 5000)
    instead = [lambda source: reactivex.of("Other.").pipe(ops.delay(0.05))]
    result = await sv.Pipeline(backend, chunk_operators=instead).run("go")
    assert (result.success, result.text) == (False, "Other.")
    assert backend.said < 500
    assert backend.closed == 1


@pytest.mark.parametrize("late", [0, 0.01])
async def test_one_that_has_enough_closes_the_backend_at_once(late):
    backend = Spoken(*["One. "] * 300, asyncio.Event().wait)
    operators = [ops.take(2), *([ops.delay(late)] if late else [])]
    run = sv.Pipeline(backend, requirements=[Judge()], chunk_operators=operators).start("go")
    events = await watch(run)
    assert (await run).success is False
    assert run.text == "One. One."
    assert backend.closed == 1
    assert late or types(events).count("quick_check") == 2


@pytest.mark.parametrize("late", [[], [ops.delay(0.001)]])
async def test_what_they_raise_ends_the_run(late):
    backend = Spoken("One. ", "Two. ", asyncio.Event().wait)
    raises = ops.map(lambda chunk: 1 / chunk.index)
    with pytest.raises(ZeroDivisionError):
        await sv.Pipeline(backend, chunk_operators=[*late, raises]).run("go")
    assert backend.closed == 1


@pytest.mark.parametrize("late", [[], [ops.delay(0.001)]])
async def test_what_is_neither_chunk_nor_string_is_named(late, reported):
    backend = Spoken("One. ", "Two. ", asyncio.Event().wait)
    operators = [*late, ops.map(lambda chunk: chunk.index)]
    with pytest.raises(DeltaTypeError, match="chunk_operators emitted int; emit chunks, or str"):
        await sv.Pipeline(backend, chunk_operators=operators).run("go")
    assert backend.closed == 1
    assert not reported


async def test_an_error_of_the_backend_goes_through_them():
    def backend():
        return Spoken("One. ", "Two. ", OSError("gone"))

    with pytest.raises(OSError, match="gone"):
        await sv.Pipeline(backend(), chunk_operators=[numbered()]).run("go")
    held = [ops.map(lambda chunk: chunk.text), ops.catch(lambda error, _: bridge.from_async_iterable(says))]  # fmt: skip
    result = await sv.Pipeline(backend(), chunk_operators=held).run("go")
    assert (result.success, result.text) == (False, "One. Sorry.")


async def says():
    yield " Sorry."


async def test_what_they_start_ends_with_the_run():
    closed = []

    async def endless():
        try:
            yield "Echo."
            await asyncio.Event().wait()
        finally:
            closed.append(1)

    backend = Spoken("One. ", "Two. ", asyncio.Event().wait)
    echo = ops.flat_map(lambda chunk: bridge.from_async_iterable(endless))
    async with sv.Pipeline(backend, chunk_operators=[echo]).start("go") as run:
        async for event in run:
            if event.type == "chunk":
                break
    assert (closed, backend.closed) == ([1], 1)


@pytest.mark.parametrize("cancel_at", ["retry", "full_validation"])
async def test_cancelled_by_a_subscriber_nothing_more_is_delivered(cancel_at):
    mode = "continue" if cancel_at == "retry" else "restart"
    run = four_sentences(mode).start("go")
    run.subscribe(lambda event: run.cancel() if event.type == cancel_at else None)
    events = []
    run.subscribe(events.append)
    assert not (await run).success
    assert "chunk" not in types(events)[types(events).index(cancel_at) :]


@pytest.mark.parametrize("place", ["chunk_operators", "delta_operators"])
def test_slips_are_named_before_anything_starts(place):
    backend = sv.ScriptedBackend("One.")
    for slip, said in (
        (ops.map, r"\[0\] \(map\) returned function for an observable; call it: ops.map\(…\)"),
        (lambda source: source.subscribe(print), "return an observable"),
        (lambda source: None, "returned NoneType for an observable; return an observable"),
    ):
        with pytest.raises(UsageError, match=said):
            sv.Pipeline(backend, **{place: [slip]})
    with pytest.raises(UsageError, match="must be a list of operators"):
        sv.Pipeline(backend, **{place: ops.take(1)})
    with pytest.raises(UsageError, match="must be a list of operators"):
        sv.Pipeline(backend, **{place: ["take"]})


async def test_operators_that_drop_everything_keep_a_bounded_number_of_chunks(monkeypatch):
    monkeypatch.setattr("streamval.pipeline.chunk_operators.MOST_WAITING", 10)
    kept = []
    most = ChunkOperators._push

    def push(self, *what):
        most(self, *what)
        kept.append(len(self._waiting))

    monkeypatch.setattr(ChunkOperators, "_push", push)
    last = [ops.take_last(1), ops.map(lambda chunk: chunk.text)]
    run = sv.Pipeline(Spoken(*["One. "] * 300), chunk_operators=last).start("go")
    (chunk,) = [event.chunk() for event in await watch(run) if event.type == "chunk"]
    assert max(kept) == 10
    assert (chunk.text, chunk.index, chunk.start, chunk.end) == ("One.", 299, 0, 1499)
