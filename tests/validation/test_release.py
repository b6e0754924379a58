"""Tests of `streamval.validation.release`."""

import asyncio

import pytest

import streamval as sv
from tests.support.sources import Judge, Spoken


@pytest.mark.parametrize("slow", [0, 0.02])
async def test_what_a_hold_lets_through_does_not_depend_on_timing(slow):
    async def holding(text):
        if text == "Two.":
            await asyncio.sleep(0.005)
            return "unknown"
        return "pass"

    async def strict(text):
        if text == "Three.":
            await asyncio.sleep(slow)
            return "fail"
        return "pass"

    result = await sv.Pipeline(
        sv.ScriptedBackend("One. Two. Three."),
        requirements=[Judge(holding, hold=True, max_concurrency=3), Judge(strict)],
    ).run("go")
    assert result.text == "One."


async def test_hold_keeps_chunks_until_a_pass():
    events = []
    hold = Judge(lambda text: "pass" if text == "Three." else "unknown", hold=True)
    run = sv.Pipeline(Spoken("One. Two. Three. Four."), requirements=[hold]).start("go")
    run.subscribe(lambda e: events.append((e.type, getattr(e, "text", None))))
    await run
    assert [
        event for event in events if event[0] in ("quick_check", "chunk", "full_validation")
    ] == [
        *(("quick_check", None), ("quick_check", None), ("quick_check", None)),
        *(("chunk", "One."), ("chunk", "Two."), ("chunk", "Three.")),
        *(("quick_check", None), ("full_validation", None), ("chunk", "Four.")),
    ]


@pytest.mark.parametrize(("passes", "text"), [(True, "One. Two."), (False, "")])
async def test_hold_until_the_final_validation(passes, text):
    hold = Judge("unknown", whole=passes, hold=True)
    result = await sv.Pipeline(Spoken("One. Two."), requirements=[hold]).run("go")
    assert (result.success, result.text) == (passes, text)


async def test_a_fail_drops_what_is_held():
    hold = Judge(lambda text: "fail" if text == "Two." else "unknown", hold=True)
    result = await sv.Pipeline(Spoken("One. Two."), requirements=[hold]).run("go")
    assert result.text == ""


async def test_a_chunker_that_raises_releases_nothing_that_is_held():
    class Breaks:
        def feed(self, delta):
            if "Two" in delta:
                raise ValueError("broken")
            return [sv.Chunk(delta, 0, 0, len(delta))]

        def flush(self):
            return []

    judge = Judge("unknown", whole=False, hold=True, chunking=Breaks, on_error="pass")
    result = await sv.Pipeline(Spoken("One. ", "Two. ", "Three."), requirements=[judge]).run("go")
    assert (result.success, result.text) == (False, "")


class Waits(sv.Requirement):
    """Passes what begins with One; knows nothing of anything else. No model is asked."""

    def stream_validate(self, chunk, *, backend, ctx):
        return sv.PartialValidationResult("pass" if chunk.startswith("One") else "unknown")


def waits(text):
    return True if text.startswith("One") else None


@pytest.mark.parametrize("rule", [Waits("waits", hold=True), sv.stream_check(waits, hold=True)])
@pytest.mark.parametrize("chunking", ["sentence", "word", None])
async def test_what_was_held_to_the_end_and_never_passed_is_no_success(rule, chunking):
    result = await sv.Pipeline(Spoken("One. ", "Two."), requirements=[rule], chunking=chunking).run(
        "go"
    )
    assert (result.success, result.text.strip()) == (False, "One.")
    assert "never passed what it held back" in result.failures[0].reason
    passed = await sv.Pipeline(Spoken("Two. One."), requirements=[rule]).run("go")
    assert (passed.success, passed.text) == (True, "Two. One.")


async def test_the_same_of_a_text_that_was_not_streamed():
    rule = sv.stream_check(waits, hold=True)
    [result] = await sv.start_session(Spoken("Two.")).avalidate([rule], output="Two.")
    assert not result
