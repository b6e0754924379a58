"""Tests of `streamval.requirements.classifier`."""

import asyncio
import math
import threading
from fractions import Fraction

import pytest

import streamval as sv
from streamval.errors import UsageError, ValidatorError
from tests.support.async_source import turns
from tests.support.sources import Spoken


async def run_of(judge, *deltas):
    return await sv.Pipeline(Spoken(*deltas), requirements=[judge], chunking=None).run("go")


@pytest.mark.parametrize(
    ("answer", "refuse", "passes"),
    [
        ("rude", {"rude"}, False),
        ("kind", {"rude"}, True),
        (0.9, 0.8, False),
        (0.7, 0.8, True),
        (1, 0.8, False),
        (("rude", 0.9), {"rude": 0.8}, False),
        (("rude", 0.7), {"rude": 0.8}, True),
        ({"label": "rude", "score": 0.9}, {"rude": 0.8}, False),
        ([{"label": "kind", "score": 0.9}, {"label": "rude", "score": 0.85}], {"rude": 0.8}, False),
        ([], {"rude"}, True),
        ([("PERSON", 0.9)], {"PERSON": 0.6}, False),
        ("rude", {"rude": 0.8}, False),
        ({"rude": 0.9, "kind": 0.1}, {"rude": 0.8}, False),
        ({"rude": 0.7, "kind": 0.9}, {"rude": 0.8}, True),
        (Fraction(9, 10), 0.8, False),  # a number of another library, as numpy's float32 is
    ],
)
async def test_what_a_classifier_may_answer(answer, refuse, passes):
    result = await run_of(sv.classifier(lambda _: answer, refuse=refuse), "One.")
    assert result.success is passes
    if not passes:
        assert "it is classified as" in result.failures[0].reason


@pytest.mark.parametrize("answer", [None, True, object(), {"label": None}, [None]])
async def test_an_answer_that_is_none_is_an_error(answer):
    with pytest.raises(ValidatorError, match="a classifier answered"):
        await run_of(sv.classifier(lambda _: answer, refuse={"rude"}), "One.")


@pytest.mark.parametrize(
    "answer",
    [math.nan, ("rude", math.nan), {"label": "rude", "score": math.nan}, {"rude": math.nan}],
)
async def test_nan_is_no_score_and_passes_nothing(answer):
    with pytest.raises(ValidatorError, match="answered NaN"):
        await run_of(sv.classifier(lambda _: answer, refuse={"rude": 0.8}), "One.")


@pytest.mark.parametrize(
    "refuse", [math.nan, {"rude": math.nan}, {"rude": "high"}, True, {}, set()]
)
def test_a_limit_is_a_number(refuse):
    with pytest.raises(UsageError, match="refuse= must be"):
        sv.classifier(lambda text: 0.5, refuse=refuse)


@pytest.mark.parametrize("answer", [0.1, "fine", ("fine", 0.9), {"fine": 0.9}])
async def test_a_function_of_a_list_that_is_given_a_text_is_an_error(answer):
    """It judged each character of the text, and passed everything."""
    judge = sv.classifier(lambda texts: [answer for _ in texts], refuse=0.6)
    with pytest.raises(ValidatorError, match="batched=True"):
        await run_of(judge, "All of this is rude.")


async def test_scores_by_label_of_a_list_of_texts():
    judge = sv.classifier(
        lambda texts: {
            "rude": [0.9 * ("fool" in text) for text in texts],
            "kind": [0.1] * len(texts),
        },
        refuse={"rude": 0.8},
        batched=True,
    )
    assert (await run_of(judge, "You fool.")).success is False
    assert (await run_of(judge, "You friend.")).success is True


async def test_a_bare_score_is_no_label():
    with pytest.raises(ValidatorError, match="answered a bare score"):
        await run_of(sv.classifier(lambda _: 0.99, refuse={"toxic": 0.8}), "One.")


async def test_chunks_that_wait_are_classified_together_and_off_the_loop():
    calls, threads = [], set()
    gate = threading.Event()

    def slow(texts):
        calls.append(list(texts))
        threads.add(threading.current_thread())
        gate.wait(10)
        return ["fine"] * len(texts)

    judge = sv.classifier(slow, refuse={"rude"}, batched=True, batch_size=4)
    going = asyncio.create_task(run_of(judge, *(f"{n} " for n in range(9))))
    while len(calls) < 1:
        await asyncio.sleep(0.001)
    await turns(200)
    gate.set()
    assert (await going).success
    assert [len(call) for call in calls] == [1, 4, 4]
    assert [text.strip() for call in calls for text in call] == [str(n) for n in range(9)]
    assert threading.main_thread() not in threads


async def test_the_first_refused_chunk_stops_the_model():
    judge = sv.classifier(lambda text: "rude" if "fool" in text else "fine", refuse={"rude"})
    backend = Spoken("Good day. ", "You fool. ", asyncio.Event().wait)
    result = await sv.Pipeline(backend, requirements=[judge], chunking=None).run("go")
    assert (result.success, result.text) == (False, "Good day. ")
    assert backend.closed == 1


async def test_one_that_is_cancelled_leaves_the_others_their_answers():
    gate = threading.Event()

    def slow(texts):
        gate.wait(10)
        return ["fine"] * len(texts)

    judge = sv.classifier(slow, refuse={"rude"}, batched=True)
    asked = [
        asyncio.create_task(judge.stream_validate(text, backend=None, ctx=None))
        for text in ("a", "b", "c")
    ]
    await turns(5)
    asked[0].cancel()
    await asyncio.sleep(0)
    gate.set()
    done = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError)
    assert [verdict.success for verdict in done[1:]] == ["pass", "pass"]


async def test_what_it_raises_ends_the_run_or_counts_as_on_error_says():
    def broken(_):
        raise LookupError("no model")

    with pytest.raises(LookupError):
        await run_of(sv.classifier(broken, refuse={"rude"}), "One.")
    judge = sv.classifier(broken, refuse={"rude"}, on_error="fail")
    assert not (await run_of(judge, "One.")).success
    with pytest.raises(ValidatorError, match="gave 0 answers for 1"):
        await run_of(sv.classifier(lambda _: [], refuse={"rude"}, batched=True), "One.")


@pytest.mark.parametrize(
    "wrong",
    [{"refuse": set()}, {"refuse": "rude"}, {"refuse": True}, {"refuse": {"a"}, "batch_size": 0}],
)
def test_wrong_arguments(wrong):
    with pytest.raises(UsageError):
        sv.classifier(str, **wrong)
    with pytest.raises(UsageError, match="function"):
        sv.classifier("rude", refuse={"rude"})
