"""Tests of `streamval.requirements.repetition`."""

import pytest

import streamval as sv
from streamval import requirements as reqs
from streamval.errors import UsageError
from streamval.testing import judge
from tests.support.requirements import failing, on_the_whole, passing, run_of, streamed, whole


@pytest.mark.parametrize(
    ("text", "success"),
    [
        ("What is 3 + 4? What is 3 × 4?", True),
        ("今日は天気がいい。今日は天気がいい。", False),
        ("Is it so nice? It is so nice.", True),
    ],
)
async def test_what_counts_as_the_same(text, success):
    assert (await run_of(reqs.NoRepetition(), text)).success is success


async def test_a_loop_is_cut_in_the_middle_of_its_sentence():
    text = "It goes " + "round and round the house " * 30
    _, reason, written = await failing(sv.NoLoop(), text, chunking="word")
    assert reason == "it says 'round and round the house' again and again"
    assert written < 100


@pytest.mark.parametrize("chunking", ["sentence", "word", None])
async def test_a_loop_is_found_whatever_the_chunks(chunking):
    text = "Well. " + "I know. You know. " * 6
    assert (await failing(sv.NoLoop(), text, chunking=chunking))[1].startswith("it says 'i know")


@pytest.mark.parametrize(
    "text", ["No, no, no, no!", "The more the better, the more the merrier, the more the messier."]
)
async def test_what_is_no_loop(text):
    await passing(sv.NoLoop(), text)
    assert await on_the_whole(sv.NoLoop(), text)


async def test_a_loop_in_the_whole_output():
    assert not await on_the_whole(sv.NoLoop(), "a b c d " * 9)


def test_once_is_no_loop():
    with pytest.raises(UsageError, match="at least 2"):
        sv.NoLoop(times=1)


async def test_no_repetition():
    text = "Water is wet here. Yes. Yes. WATER is wet, here! More."
    assert await streamed(reqs.NoRepetition(), text) == (
        *(False, "Water is wet here. Yes. Yes."),
        ["it says 'WATER is wet, here!' again"],
    )
    again = await reqs.NoRepetition().validate(None, whole("It is so. It is so."))
    assert not again


@pytest.mark.parametrize("chunking", ["word", None, "sentence"])
async def test_repeated_sentences_fail_however_the_pipeline_cuts(chunking):
    backend = sv.ScriptedBackend("I like the sea. I like the sea.", token_size=3)
    pipeline = sv.Pipeline(
        backend, requirements=[sv.requirements.NoRepetition()], chunking=chunking
    )
    assert not (await pipeline.run("x")).success


@pytest.mark.parametrize(("times", "success"), [(2, True), (4, False)])
async def test_a_loop_in_deltas_that_cut_words_is_found_at_the_end(times, success):
    backend = sv.ScriptedBackend("round and round we go " * times, token_size=3)
    pipeline = sv.Pipeline(backend, requirements=[sv.NoLoop(chunking=None)], chunking=None)
    assert (await pipeline.run("x")).success is success


def test_a_loop_without_spaces_is_found_and_a_long_word_is_none():
    for said in ("hmm" * 200, "ab\u00e9" * 99, "a" * 400):
        verdict = judge(sv.no_loop(), said, chunking=None)
        assert "again and again" in verdict.failures[0].reason
    for said in ("hmm" * 60, "=" * 500, " ".join(["." * 300] * 3), bytes(range(256)).hex()):
        assert judge(sv.no_loop(), said, chunking=None).failures == ()
