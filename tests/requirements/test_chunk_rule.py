"""Tests of `streamval.requirements.chunk_rule`."""

import asyncio
import pickle
import threading

import pytest

import streamval as sv
from streamval.chunkers.base import ChunkingStrategy
from streamval.errors import UsageError, ValidatorError
from tests.support.requirements import streamed, whole
from tests.support.sources import Spoken


@pytest.mark.parametrize(
    ("answer", "success", "reason"),
    [
        (True, "pass", None),
        (False, "fail", None),
        (None, "unknown", None),
        ((True, "complaint"), "pass", None),
        ((False, "complaint"), "fail", "complaint"),
        (sv.PartialValidationResult("unknown", reason="r"), "unknown", "r"),
    ],
)
@pytest.mark.parametrize("kind", ["plain", "async", "blocking"])
async def test_stream_check_takes_every_kind_of_answer(answer, success, reason, kind):
    async def later(_):
        await asyncio.sleep(0)
        return answer

    fn = later if kind == "async" else lambda _: answer
    check = sv.stream_check(fn, "check", blocking=kind == "blocking")
    result = await check.stream_validate("chunk", backend=None, ctx=None)
    assert (result.success, result.reason) == (success, reason)


async def test_blocking_runs_on_a_thread():
    threads = []
    check = sv.stream_check(
        lambda _: bool(threads.append(threading.current_thread())) or True, blocking=True
    )
    await streamed(check, "One. Two.")
    assert threading.main_thread() not in threads
    assert len(threads) == 2


async def test_at_the_end_of_a_stream_it_asks_nothing_again():
    asked = []
    check = sv.stream_check(lambda text: bool(asked.append(text)) or True)
    assert (await streamed(check, "One. Two."))[0]
    assert asked == ["One.", "Two."]


async def test_an_output_that_was_not_streamed_is_judged_as_one_chunk():
    check = sv.stream_check(lambda text: (len(text) < 5, "long"))
    assert (await check.validate(None, whole("Longer."))).reason == "long"


async def test_stream_check_refuses_other_answers_and_other_things():
    with pytest.raises(ValidatorError, match="returned 'yes'"):
        await streamed(sv.stream_check(lambda _: "yes"), "One.")
    with pytest.raises(UsageError, match="needs a function"):
        sv.stream_check("text")


def test_the_description_comes_from_the_function():
    def polite(text):
        """Stay polite."""

    assert sv.stream_check(polite).description == "Stay polite."


@pytest.mark.parametrize("blocking", [True, False])
async def test_one_that_raises_stop_iteration_ends_the_run(blocking):
    broken = sv.stream_check(lambda text: next(iter([])), "broken", blocking=blocking)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await sv.Pipeline(Spoken("One. "), requirements=[broken]).run("x")
    forgiving = sv.stream_check(
        lambda text: next(iter([])), "broken", blocking=blocking, on_error="pass"
    )
    assert (await sv.Pipeline(Spoken("One. "), requirements=[forgiving]).run("x")).success


class WholeLines(ChunkingStrategy):
    def split(self, text):
        return [f"{line}\n" for line in text.split("\n")[:-1]]


async def test_text_that_no_chunk_brought_is_judged_at_the_end():
    """A chunker may drop its tail. An output of which no chunk was judged is not valid for that."""
    no_bad_words = sv.stream_check(lambda text: "bad" not in text, chunking=WholeLines())
    result = await sv.Pipeline(
        Spoken("bad words without a line's end"), requirements=[no_bad_words], chunking=None
    ).run("x")
    assert not result.success


def test_a_check_on_a_thread_can_be_pickled():
    check = pickle.loads(pickle.dumps(sv.stream_check(str.isascii, blocking=True)))
    assert check.description == sv.stream_check(str.isascii).description
