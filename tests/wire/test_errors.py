"""Tests of `streamval.wire.errors`."""

import pytest

from streamval.errors import BackendError, RateLimitError, RefusedRequestError, StreamBrokenError
from streamval.wire.errors import error_answer, message_in, retry_after


@pytest.mark.parametrize("value", ["Sun, 22 Nov 2026 08:00:00 GMT", "-1", "nan", "1e9", "", None])
def test_a_wait_that_is_none_or_too_long_is_not_believed(value):
    assert retry_after({} if value is None else {"retry-after": value}) is None


@pytest.mark.parametrize("body", ["", "[" * 100_000, '{"error": 5}', "null", "\n\n"])
def test_any_body_has_a_message(body):
    assert isinstance(message_in(body), str)


def test_an_upstreams_own_words_do_not_reach_a_client():
    for error in (BackendError("secret"), RateLimitError("secret"), StreamBrokenError("secret")):
        assert "secret" not in str(error_answer(error))
    assert "seed" in str(error_answer(RefusedRequestError("seed must be a number")))
