"""Tests of `streamval.backends.provider`: pieces as hostile servers send them."""

from types import SimpleNamespace

import openai
import pytest

from streamval.backends.base import Delta, GenerationRequest
from streamval.backends.provider import as_delta, broken_off, close, explained
from streamval.errors import BackendError, RateLimitError, StreamBrokenError
from streamval.types.results import Usage


def piece(*choices, **fields):
    made = [SimpleNamespace(**choice) for choice in choices]
    return SimpleNamespace(choices=made, **fields)


def said(content, **more):
    return {"index": 0, "delta": SimpleNamespace(content=content, **more)}


@pytest.mark.parametrize(
    ("given", "delta"),
    [
        (piece(said("Hi")), Delta("Hi")),
        (piece(said(None)), Delta()),
        (piece(said("", refusal="I will not.")), Delta(refusal="I will not.")),
        (piece({"index": 0, "text": "Hi", "finish_reason": "stop"}), Delta("Hi", None, "stop")),
        (piece(), Delta()),
        (SimpleNamespace(choices=None), Delta()),
        (piece({"index": 1, "text": "another answer"}), Delta()),
        (
            piece(usage=SimpleNamespace(prompt_tokens=2, completion_tokens=3)),
            Delta(usage=Usage(2, 3, source="backend")),
        ),
    ],
)
def test_pieces(given, delta):
    assert as_delta(given) == delta


def test_an_end_that_is_none_says_what_the_server_sent():
    page = SimpleNamespace(headers={"content-type": "text/html; charset=utf-8"})
    assert "text/html, which is no stream" in str(broken_off("m", page))
    assert "without a finish reason" in str(broken_off("m", None))
    stream = SimpleNamespace(headers={"content-type": "text/event-stream"})
    assert "without a finish reason" in str(broken_off("m", stream))


def test_an_error_is_one_line_without_keys():
    request = GenerationRequest((), options={"api_key": "sk-1234567"})
    error = explained(
        openai.OpenAIError("bad sk-1234567 and sk-other-99\nmany\nlines"),
        "m",
        request,
        {"token": "sk-other-99"},
        started=False,
    )
    assert type(error) is BackendError
    assert str(error) == "m failed: bad *** and ***"


def test_an_error_in_mid_stream_is_a_broken_stream():
    request = GenerationRequest(())
    started = explained(ValueError(""), "m", request, started=True)
    assert type(started) is StreamBrokenError
    assert str(started) == "m broke off in mid-stream: ValueError"
    busy = openai.RateLimitError.__new__(openai.RateLimitError)
    Exception.__init__(busy, "busy")
    assert type(explained(busy, "m", request, started=True)) is RateLimitError


async def test_everything_is_closed_in_order():
    closed = []

    class Sync:
        def close(self):
            closed.append("sync")

    class Async:
        async def aclose(self):
            closed.append("async")

    await close([None, Async(), Sync(), object()])
    assert closed == ["async", "sync"]


@pytest.mark.parametrize("content", [5, True, {"a": 1}, [5], [{"text": 5}]])
def test_content_that_is_no_text_is_a_broken_stream(content):
    with pytest.raises(StreamBrokenError, match="where text is expected"):
        as_delta(piece(said(content)))


def test_content_in_parts_is_their_text():
    parts = [{"type": "text", "text": "Hi "}, {"type": "thinking"}, {"type": "text", "text": "you"}]
    assert as_delta(piece(said(parts))).text == "Hi you"


@pytest.mark.parametrize("reason", [5, "", [], {}])
def test_a_finish_reason_that_is_none(reason):
    assert as_delta(piece({"index": 0, "text": "x", "finish_reason": reason})).finish_reason is None


def test_a_finish_reason_that_says_failure():
    with pytest.raises(StreamBrokenError, match="has failed"):
        as_delta(piece({"index": 0, "text": "x", "finish_reason": "error"}))


@pytest.mark.parametrize("count", ["many", [1], 2.5, -5, True])
def test_a_count_that_is_none(count):
    usage = SimpleNamespace(prompt_tokens=count, completion_tokens=count)
    assert as_delta(piece(usage=usage)).usage is None


def test_an_error_that_a_server_answered_with_is_no_missing_server():
    class Failed(openai.APIConnectionError):
        def __init__(self):
            Exception.__init__(self, "upstream: Connection error.")

    request = GenerationRequest(())
    assert type(explained(Failed(), "m", request, started=False, answered=True)) is BackendError
    missing = explained(Failed(), "m", request, started=False)
    assert "does not answer" in str(missing)
