"""Tests of `streamval.validation.observers`: requirements with `enforce=False`."""

import asyncio
import random

import pytest

import streamval as sv
from streamval import bridge
from streamval.operators import cancel_on_fail, chunk, fan_out, merge_tri_state, release, validate
from streamval.testing import run_virtually

TEXT = "One is fine. Two is bad. Three is fine. Four is bad."


def events_of(requirements, backend=None, **options):
    async def main():
        seen = []
        pipeline = sv.Pipeline(
            backend or sv.ScriptedBackend(TEXT), requirements=requirements, **options
        )
        run = pipeline.start("Count.")
        run.subscribe(seen.append)
        return await run, seen

    return run_virtually(main())[0]


def verdicts(seen):
    return [(e.chunk_index, e.verdict) for e in seen if e.type == "verdict" and e.observed]


def test_a_verdict_of_an_observer_is_an_event_and_changes_nothing():
    rule = sv.forbidden_pattern("bad", enforce=False)
    result, seen = events_of([rule])
    assert (result.success, result.text, result.failures) == (True, TEXT, ())
    assert verdicts(seen) == [(0, "pass"), (1, "fail")]  # as it would have decided
    (check, *_) = [e for e in seen if e.type == "quick_check"]
    assert (check.passed, check.results) == (True, (None,))
    assert [bool(one) for one in result.validations] == [False]
    assert result.validations[0].reason == "it says 'bad'"


@pytest.mark.parametrize("emit", [False, True])
def test_others_decide_as_without_it(emit):
    words = sv.forbidden_words(["three"])
    observer = sv.forbidden_words(["two"], enforce=False)
    result, seen = events_of([observer, words], emit_verdicts=emit)
    assert result.text == "One is fine. Two is bad."
    assert [one.lane for one in result.failures] == [1]
    assert [event.lane for event in seen if event.type == "verdict" and event.observed] == [0, 0]
    assert any(e.type == "verdict" and not e.observed for e in seen) is emit


def test_it_holds_nothing_back_and_delays_nothing():
    order = []

    class Slow(sv.Requirement):
        async def stream_validate(self, chunk, *, backend, ctx):
            await asyncio.sleep(5)
            order.append(("judged", chunk))
            return sv.PartialValidationResult("unknown")

    async def main():
        run = sv.Pipeline(
            sv.ScriptedBackend(TEXT), requirements=[Slow("slow", hold=True, enforce=False)]
        ).start("Count.")
        run.subscribe(lambda e: order.append(("chunk", e.text)) if e.type == "chunk" else None)
        return await run

    result, seconds = run_virtually(main())
    assert result.success
    assert [kind for kind, _ in order] == ["chunk"] * 4 + ["judged"] * 4
    assert seconds == 20  # the end waits for its verdicts


@pytest.mark.parametrize("final", [False, True])
def test_an_observer_that_raises_is_unknown(final):
    class Broken(sv.Requirement):
        def stream_validate(self, chunk, *, backend, ctx):
            if final:
                return sv.PartialValidationResult("pass")
            raise ValueError("no")

        async def validate(self, backend, ctx, **_):
            raise ValueError("not at all")

    result, seen = events_of([Broken("broken", enforce=False)])
    assert result.success
    assert {verdict for _, verdict in verdicts(seen)} == {"pass" if final else "unknown"}
    assert result.validations[0].error == "ValueError: not at all"


def test_what_is_no_exception_ends_the_run_all_the_same():
    class Fatal(sv.Requirement):
        def stream_validate(self, chunk, *, backend, ctx):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        events_of([Fatal("fatal", enforce=False)])


def test_one_that_cannot_keep_up_stops_judging_and_memory_stays_flat():
    waiting = 0

    class Stuck(sv.Requirement):
        async def stream_validate(self, chunk, *, backend, ctx):
            nonlocal waiting
            waiting += 1
            await asyncio.sleep(1000)
            return sv.PartialValidationResult("pass")

    backend = sv.ScriptedBackend("One is here. " * 200, delay=0.01)
    result, seen = events_of([Stuck("stuck", enforce=False)], backend, max_pending_chunks=8)
    assert result.success
    assert waiting == 1
    (last,) = [e for e in seen if e.type == "verdict"]
    assert (last.verdict, last.chunk_index) == ("unknown", 8)
    assert "fell behind" in last.reason


def test_it_is_asked_on_its_channels():
    thought = [sv.Delta(reasoning="Hm. That is bad. "), sv.Delta("All is well.")]
    rule = sv.forbidden_pattern("bad", enforce=False).on("reasoning")
    result, seen = events_of([rule], sv.IterableBackend(lambda prompt: thought))
    assert result.reasoning == "Hm. That is bad."
    assert verdicts(seen)[-1] == (1, "fail")


def test_after_a_repair_it_begins_anew():
    backend = sv.ScriptedBackend(["One is fine. Two is bad.", "Two is good."], supports_prefix=True)
    seen_by = []

    class Looks(sv.Requirement):
        def stream_validate(self, chunk, *, backend, ctx):
            seen_by.append((chunk, ctx.text_so_far))
            return sv.PartialValidationResult("pass")

    rules = [sv.forbidden_pattern("bad"), Looks("looks", enforce=False)]
    result, _ = events_of(rules, backend, retry=sv.Repair())
    assert result.success
    assert seen_by[0] == ("One is fine.", "One is fine.")
    assert seen_by[-1][0].strip() == "Two is good."


def by_hand(rules):
    return [
        chunk(),
        cancel_on_fail(fan_out(rules, chunking="sentence")),
        merge_tri_state(),
        release(),
    ]


@pytest.mark.parametrize("seed", range(20))
async def test_a_chain_by_hand_delivers_the_same(seed):
    dice = random.Random(seed)
    names = ["One", "Two", "Three", "Four", "Five"]
    rules = [
        sv.forbidden_words([dice.choice(names)], enforce=dice.random() < 0.5) for _ in range(3)
    ]
    deciding = [rule for rule in rules if rule.enforce]

    async def text():
        for word in TEXT.split(" "):
            yield word + " "

    for operators in (
        by_hand(rules),
        [chunk(), validate(rules, final=False, chunking="sentence"), release()],
    ):
        got = [
            one.text
            async for one in bridge.iterate(bridge.from_async_iterable(text).pipe(*operators))
        ]
        wanted = await sv.Pipeline(sv.ScriptedBackend(TEXT), requirements=deciding).run("Count.")
        assert " ".join(got) == wanted.text


def test_a_run_with_observers_is_judged_alike_by_pipelines_of_every_chunking():
    for chunking in ("sentence", "word", None):
        result, seen = events_of([sv.forbidden_words(["three"], enforce=False)], chunking=chunking)
        assert result.text == TEXT
        assert [v for _, v in verdicts(seen)].count("fail") == 1
