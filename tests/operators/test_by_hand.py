"""A chain that is composed by hand delivers, refuses and raises what a pipeline of one attempt does."""

import asyncio
import random
import threading

import pytest
import reactivex
from reactivex import operators as ops

import streamval as sv
from streamval import bridge
from streamval.errors import RequirementsNotMetError, UsageError
from streamval.operators import cancel_on_fail, chunk, fan_out, merge_tri_state, release, validate
from streamval.testing import run_virtually
from tests.support.sources import Judge, PlainJudge, Spoken

WORDS = ["All", "is", "well.", "Anna", "anna@example.com", "rude!", "4111 1111 1111 1111", "\n\n", "7", "é", "\ud83d"]  # fmt: skip


class Boom(Exception):
    """What a judge or a source raises."""


def a_judge(rng):
    """A judge that is ready, plain or async; may hold, raise, be slow, or refuse the whole."""
    options = {"hold": rng.random() < 0.2, "max_concurrency": rng.choice([1, 1, 2])}
    bad = rng.choice(WORDS)

    def plain(text):
        if bad not in text:
            return rng_of(text).choice(["pass", "pass", "unknown"])
        if options["hold"]:
            raise Boom(text)
        return "fail"

    async def slow(text):
        await asyncio.sleep(rng_of(text).choice([0, 0, 1]))
        return plain(text)

    whole = rng.choice([True, True, True, False, lambda text: len(text) < 60, Boom("whole")])
    return rng.choice(
        [
            lambda: sv.no_personal_data(),
            lambda: sv.forbidden_words([bad.strip() or "7"]),
            lambda: sv.word_limit(at_most=rng_of(bad).randint(3, 30)),
            lambda: PlainJudge(plain, whole=whole, **options),
            lambda: Judge(slow, whole=whole, **options),
            lambda: Judge(slow, on_error="fail", chunking="word", **options),
        ]
    )()


def rng_of(text):
    return random.Random(ascii(text))


def a_stream(rng):
    text = " ".join(rng.choice(WORDS) for _ in range(rng.randint(0, 25)))
    deltas, at = [], 0
    while at < len(text):
        size = rng.choice([1, 2, 5, 20])
        deltas.append(text[at : at + size])
        at += size
        if rng.random() < 0.05:
            deltas.append(1)
    if rng.random() < 0.1:
        at = rng.randint(0, len(deltas))
        deltas[at:] = [
            100,
            Boom("source"),
        ]  # after a pause, as it ends judgements that are under way
    return deltas


async def by_pipeline(deltas, judges, chunking):
    backend, chunks = Spoken(*deltas), []
    run = sv.Pipeline(backend, requirements=judges, chunking=chunking).start("go")
    run.subscribe(lambda e: chunks.append(e.chunk()) if isinstance(e, sv.ChunkEvent) else None)
    refused, raised = (), None
    try:
        refused = (await run).failures
    except Boom as error:
        raised = str(error)
    assert backend.closed == backend.opened
    return chunks, refused, raised


async def by_hand(deltas, judge_all, chunking):
    backend, chunks = Spoken(*deltas), []
    refused, raised = (), None
    chain = backend.observe("go").pipe(chunk(chunking), judge_all, release(on_fail="error"))
    try:
        async for found in bridge.iterate(chain):
            chunks.append(found)
    except RequirementsNotMetError as error:
        refused = error.failures
    except Boom as error:
        raised = str(error)
    assert backend.closed == backend.opened
    return chunks, refused, raised


def of(outcome):
    """Which of two lanes has failed a chunk first, in the same turn of the loop, is left out."""
    chunks, refused, raised = outcome
    return chunks, [one if one.chunk_index is None else one.chunk_index for one in refused], raised


@pytest.mark.parametrize("part", range(20))
def test_by_hand_is_the_same_as_a_pipeline(part):
    """10,000 random streams in all."""

    async def main():
        for seed in range(part * 500, part * 500 + 500):
            rng = random.Random(seed)
            deltas = a_stream(rng)
            judges = [a_judge(rng) for _ in range(rng.randint(0, 3))]
            chunking = rng.choice(["sentence", "word", "paragraph", None])
            hand = await by_hand(deltas, validate(judges, chunking=chunking), chunking)
            assert of(hand) == of(await by_pipeline(deltas, judges, chunking)), seed

    run_virtually(main())


async def test_the_three_operators_name_what_failed_as_validate_does():
    def judges():
        return [Judge("pass", "one"), sv.forbidden_words(["rude"])]

    deltas = ["Fine. ", "You are rude. ", "More."]
    three = reactivex.compose(cancel_on_fail(fan_out(judges())), merge_tri_state())
    found = await by_hand(deltas, three, "sentence")
    assert found == await by_hand(deltas, validate(judges()), "sentence")
    assert [failure.requirement for failure in found[1]] == ['never say "rude"']


def failing_twice():
    """A chain whose source writes something bad twice, then something good."""
    backend = Counting()
    calm = sv.stream_check(lambda text: not text.endswith("!"), "stay calm")
    return backend, backend.observe("go").pipe(
        chunk(), validate([calm]), release(on_fail="error"), ops.map(lambda found: found.text)
    )


class Counting(sv.Backend):
    """Says something else each time."""

    model = "counting"

    def __init__(self):
        self.opened = self.closed = 0

    async def stream(self, request):
        self.opened += 1
        said = "Good. Three." if self.opened > 2 else "Fine. Bad! Never read."
        try:
            for word in said.split(" "):
                yield word + " "
        finally:
            self.closed += 1


async def test_retry_catch_and_materialize_work_on_a_failure():
    backend, chain = failing_twice()
    retried = [text async for text in bridge.iterate(chain.pipe(ops.retry(3)))]
    assert retried == ["Fine.", "Fine.", "Good.", "Three."]
    assert backend.opened == backend.closed == 3

    backend, chain = failing_twice()
    instead = chain.pipe(ops.catch(lambda error, _: reactivex.of(str(error))))
    assert [text async for text in bridge.iterate(instead)] == ["Fine.", "stay calm"]
    assert backend.opened == backend.closed == 1

    backend, chain = failing_twice()
    kinds = [note.kind async for note in bridge.iterate(chain.pipe(ops.materialize()))]
    assert kinds == ["N", "E"]

    backend, chain = failing_twice()
    with pytest.raises(RequirementsNotMetError, match="stay calm"):
        [text async for text in bridge.iterate(chain.pipe(ops.retry(2)))]
    assert backend.opened == backend.closed == 2


def test_what_a_failure_does_is_one_of_two():
    with pytest.raises(UsageError, match="on_fail must be 'complete' or 'error'"):
        release(on_fail="raise")


async def later(text):
    """Needs a loop."""


@pytest.mark.filterwarnings("ignore:coroutine 'later' was never awaited")
def test_without_a_loop_functions_judge_and_the_program_waits_for_the_final_validation():
    calm = sv.stream_check(lambda text: not text.endswith("!"), "stay calm")

    class Short(sv.Requirement):
        async def validate(self, backend, ctx, **_):
            await asyncio.sleep(0)
            return sv.ValidationResult(len(ctx.last_output().value) < 12, reason="too long")

    seen = []

    def judge(text, *judges):
        seen.clear()
        reactivex.of(text).pipe(chunk(), validate(judges), release(on_fail="error")).subscribe(
            lambda found: seen.append(found.text),
            lambda error: seen.append(str(error)),
            lambda: seen.append("end"),
        )
        return seen

    assert judge("One. Two! Three.", calm) == ["One.", "stay calm"]
    assert judge("One. Two.", calm, sv.no_personal_data(), Short("short")) == [
        "One.",
        "Two.",
        "end",
    ]
    assert judge("One. Two. Three.", Short("short"))[-1] == "short: too long"
    assert judge("One.", PlainJudge(whole=Boom("whole")))[-1] == "whole"
    (said,) = judge("One.", sv.stream_check(later, "later"))
    assert said.startswith("there is no running event loop")
    (said,) = judge("One.", Judge())
    assert said.startswith("there is no running event loop")


async def test_what_a_thread_pushes_is_judged_on_the_loop():
    home, asked = threading.current_thread(), []

    async def slow(text):
        asked.append(threading.current_thread() is home)
        await asyncio.sleep(0)
        return "pass"

    def plain(text):
        asked.append(threading.current_thread() is home)
        return "pass"

    source = reactivex.Subject()
    chain = source.pipe(chunk("word"), validate([Judge(slow), PlainJudge(plain)]), release())
    seen, ended = [], asyncio.Event()
    chain.subscribe(lambda found: seen.append(found.text), on_completed=ended.set)

    def push():
        for n in range(50):
            source.on_next(f"word{n} ")
        source.on_completed()

    await asyncio.gather(ended.wait(), asyncio.to_thread(push))
    assert seen == [f"word{n}" for n in range(50)]
    assert len(asked) == 100
    assert all(asked)
