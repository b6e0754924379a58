"""Tests of `streamval.backends.provider`."""

from types import SimpleNamespace

import openai

from streamval.backends.base import GenerationRequest
from streamval.backends.provider import broken_off, close, provider_error
from streamval.errors import BackendError, RateLimitError, StreamBrokenError


def test_an_end_that_is_none_says_what_the_server_sent():
    page = SimpleNamespace(headers={"content-type": "text/html; charset=utf-8"})
    assert "text/html, which is not a stream" in str(broken_off("m", page))
    assert "without a finish reason" in str(broken_off("m", None))
    stream = SimpleNamespace(headers={"content-type": "text/event-stream"})
    assert "without a finish reason" in str(broken_off("m", stream))


def test_an_error_is_one_line_without_keys():
    request = GenerationRequest((), options={"api_key": "sk-1234567"})
    error = provider_error(
        ValueError("bad sk-1234567 and sk-other-99\nmany\nlines"),
        "m",
        request,
        {"token": "sk-other-99"},
        started=False,
    )
    assert type(error) is BackendError
    assert str(error) == "m failed: bad *** and ***"


def test_an_error_in_mid_stream_is_a_broken_stream():
    request = GenerationRequest(())
    started = provider_error(ValueError(""), "m", request, started=True)
    assert type(started) is StreamBrokenError
    assert str(started) == "m broke off in mid-stream: ValueError"
    busy = openai.RateLimitError.__new__(openai.RateLimitError)
    Exception.__init__(busy, "busy")
    busy.status_code = 429
    assert type(provider_error(busy, "m", request, started=True)) is RateLimitError


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


def test_an_error_that_a_server_answered_with_is_no_missing_server():
    class Failed(openai.APIConnectionError):
        def __init__(self):
            Exception.__init__(self, "upstream: Connection error.")

    request = GenerationRequest(())
    assert (
        type(provider_error(Failed(), "m", request, started=False, answered=True)) is BackendError
    )
    missing = provider_error(Failed(), "m", request, started=False)
    assert "does not answer" in str(missing)
