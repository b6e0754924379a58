"""Tests of `streamval.batch.answering`, against a real server."""

import asyncio
import json

import pytest

import streamval as sv
from streamval.batch import answering, pace
from streamval.batch.answering import Answering
from streamval.batch.rows import row_of
from streamval.errors import AuthenticationError, UnknownModelError
from tests.support.upstream import upstream, words


def rows(count):
    return [row_of(n, "row", {"prompt": f"Say {n}"}) for n in range(1, count + 1)]


def speaking(url):
    return sv.Pipeline(sv.OpenAIBackend("m", base_url=url, api_key="x" * 9, max_retries=0))


def refusing(status, times, headers=""):
    """Refuses the first requests."""

    def script(body, number):
        if number < times:
            return (status, headers, b'{"error": {"message": "not now"}}')
        return words("All is well. ")

    return script


async def test_a_provider_that_asks_for_fewer_is_asked_again_after_the_time_it_says():
    told = []
    async with upstream(refusing(429, 3, "Retry-After: 0.2")) as behind:
        answers = Answering(speaking(behind.url), told.append)
        done = await asyncio.gather(*(answers.answer(row) for row in rows(6)))
        assert [one.outcome for one in done] == ["valid"] * 6
        assert len(behind.requests) == 9
    assert told[0].pause == 0.2
    assert "asks for fewer requests" in told[0].reason


async def test_a_provider_that_never_allows_it_makes_a_row_with_an_error(monkeypatch):
    monkeypatch.setattr(answering, "TRIES", 3)
    async with upstream(refusing(429, 10**6, "Retry-After: 0")) as behind:
        (done,) = [await Answering(speaking(behind.url)).answer(rows(1)[0])]
        assert len(behind.requests) == 3
    assert done.outcome == "error"
    assert json.loads(done.record)["error"].startswith("RateLimitError: ")


@pytest.mark.parametrize(("status", "kind"), [(401, AuthenticationError), (404, UnknownModelError)])
async def test_what_no_row_can_get_past_is_raised(status, kind):
    async with upstream(refusing(status, 10**6)) as behind:
        with pytest.raises(kind):
            await Answering(speaking(behind.url)).answer(rows(1)[0])


@pytest.mark.parametrize(
    "script", [[*words("One. "), "RESET"], [*words("One. "), "END"], (500, "", b"oh no")]
)
async def test_what_one_row_meets_is_the_error_of_that_row(script):
    async with upstream(lambda body, n: script if n == 1 else words("Well. ")) as behind:
        answers = Answering(speaking(behind.url))
        done = [await answers.answer(row) for row in rows(3)]
    assert [one.outcome for one in done] == ["valid", "error", "valid"]


async def test_a_server_that_is_not_there_makes_all_rows_wait(monkeypatch):
    monkeypatch.setattr(pace, "FIRST_PAUSE", 0.05)
    told = []
    async with upstream(words("Well. ")) as behind:
        url = behind.url
    answers = Answering(speaking(url), told.append)
    waiting = asyncio.ensure_future(answers.answer(rows(1)[0]))
    while not told:
        await asyncio.sleep(0.01)
    assert "does not answer" in told[0].reason
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
