"""Tests of `streamval.requirements.limits`."""

import pytest

import streamval as sv
from streamval import requirements as reqs
from streamval.errors import UsageError
from tests.support.requirements import streamed


async def test_word_limit_fails_with_the_chunk_that_goes_over():
    assert await streamed(reqs.word_limit(at_most=3), "One two. Three four. Five.") == (
        *(False, "One two."),
        ["4 words, where 3 are allowed"],
    )
    assert (await streamed(reqs.word_limit(at_least=4), "One two. Three."))[2] == [
        "only 3 words, where 4 are needed"
    ]
    assert (await streamed(reqs.word_limit(at_least=2, at_most=3), "One two."))[0]


async def test_word_limit_on_bare_deltas_with_a_chunking_of_its_own():
    limit = reqs.word_limit(at_most=2, chunking="word")
    assert (await streamed(limit, "One two three four.", chunking=None))[0] is False
    assert (await streamed(limit, "One two.", chunking=None))[0] is True


async def test_sentence_and_char_limits():
    assert (await streamed(reqs.sentence_limit(at_most=1), "One. Two."))[1] == "One."
    assert (await streamed(reqs.sentence_limit(at_most=1), "One. Two.", chunking="paragraph"))[
        0
    ] is False
    assert (await streamed(reqs.char_limit(at_most=8), "One. Two. Six."))[1] == "One. Two."


async def test_a_reached_lower_limit_passes_early():
    limit = reqs.word_limit(at_least=2)
    states = [
        (await limit.stream_validate(w, backend=None, ctx=None)).success for w in ("a", "b", "c")
    ]
    assert states == ["unknown", "pass", "pass"]


@pytest.mark.parametrize("bounds", [{}, {"at_least": 3, "at_most": 2}, {"at_most": -1}])
def test_limits_that_cannot_be_met_are_refused(bounds):
    with pytest.raises(UsageError, match="words"):
        reqs.word_limit(**bounds)


@pytest.mark.parametrize(("reason", "met"), [("length", False), ("stop", True), (None, True)])
async def test_finished(reason, met):
    backend = sv.IterableBackend(lambda _: ["All is w", sv.Delta("ell", finish_reason=reason)])
    result = await sv.Pipeline(backend, requirements=[sv.finished()]).run("go")
    assert result.success is met
    if not met:
        assert str(result.failures[0]) == ("the model comes to its end: cut off at 2 tokens")
