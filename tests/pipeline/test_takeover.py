"""Tests of `streamval.pipeline.takeover`."""

import pytest

import streamval as sv
from streamval.errors import (
    AuthenticationError,
    BackendError,
    ConnectionFailedError,
    DeltaTypeError,
    RateLimitError,
    StallError,
    StreamBrokenError,
)
from streamval.pipeline.takeover import Takeover


def backends(count):
    return [sv.ScriptedBackend(str(number)) for number in range(count)]


def after(takeover, error, now=0.0, *, begun=False, delivered=None):
    """Who goes on, and when; `None` where the error ends the run."""
    wait = takeover.after(
        error, now, begun=begun, delivered=begun if delivered is None else delivered
    )
    return None if wait is None else (takeover._backends.index(takeover.current), wait)


def busy(seconds=None):
    error = RateLimitError("busy")
    error.retry_after = seconds
    return error


def test_a_stream_cut_in_the_middle_is_resumed_by_the_same_backend_at_once():
    takeover = Takeover(backends(2), 2)
    assert after(takeover, StreamBrokenError(), begun=True) == (0, 0.0)
    assert after(takeover, StreamBrokenError(), begun=True) == (0, 0.0)
    assert after(takeover, StreamBrokenError(), begun=True) is None


@pytest.mark.parametrize("error", [StallError(), ConnectionFailedError(), busy(), TimeoutError()])
def test_after_other_faults_the_next_backend_goes_on(error):
    assert after(Takeover(backends(2), 2), error, begun=True)[0] == 1


def test_before_anything_is_delivered_each_backend_is_asked_once_for_nothing():
    takeover = Takeover(backends(3), 0)
    assert after(takeover, ConnectionFailedError()) == (1, 0.0)
    assert after(takeover, StreamBrokenError()) == (2, 0.0)
    assert after(takeover, ConnectionFailedError()) is None


def test_the_budget_is_spent_where_something_was_delivered():
    takeover = Takeover(backends(3), 1)
    assert after(takeover, busy(), delivered=True) == (1, 0.0)
    assert after(takeover, busy(), delivered=True) is None


def test_one_backend_waits_for_its_time_and_then_longer():
    takeover = Takeover(backends(1), 4)
    assert after(takeover, busy(3.0)) == (0, 3.0)
    assert after(takeover, busy(), 10.0) == (0, 1.0)
    assert after(takeover, busy(), 20.0) == (0, 2.0)
    assert after(takeover, busy(61.0), 30.0) is None  # nobody waits that long


def test_a_stream_cut_before_its_first_chunk_is_asked_again_at_once_the_first_time():
    takeover = Takeover(backends(1), 3)
    assert after(takeover, StreamBrokenError()) == (0, 0.0)
    assert after(takeover, StreamBrokenError()) == (0, 1.0)


def test_who_refused_is_not_asked_again():
    takeover = Takeover(backends(2), 5)
    assert after(takeover, AuthenticationError()) == (1, 0.0)
    assert after(takeover, busy(2.0)) == (1, 2.0)
    assert after(takeover, BackendError("no")) is None


@pytest.mark.parametrize("error", [DeltaTypeError(), ValueError(), sv.errors.UsageError()])
def test_other_exceptions_end_the_run(error):
    assert after(Takeover(backends(2), 5), error) is None


def test_a_run_begins_with_the_first_backend_that_has_not_just_failed():
    both = backends(2)
    after(Takeover(both, 1), busy(5.0), 100.0)
    later = Takeover(both, 1)
    later.begin(101.0)
    assert later.current is both[1]
    later.begin(106.0)
    assert later.current is both[0]
    after(later, busy(9.0), 106.0)
    after(later, busy(5.0), 106.0)
    later.begin(107.0)  # both have: the one that may be asked first
    assert later.current is both[1]
    later.went_well()
    assert both[1].breaker.wait(107.0) == 0
