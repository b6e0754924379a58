"""Tests of `streamval.aio.breaker`."""

from streamval.aio.breaker import LONGEST_PAUSE, Breaker


def test_each_failure_in_a_row_doubles_the_pause_up_to_a_limit():
    breaker, pauses = Breaker(), []
    for at in range(0, 1000, 100):
        breaker.failed(at=at)
        pauses.append(breaker.wait(at))
    assert pauses[:4] == [0.5, 1.0, 2.0, 4.0]
    assert pauses[-1] == LONGEST_PAUSE


def test_a_success_closes_it():
    breaker = Breaker()
    breaker.failed(at=1.0)
    breaker.failed(at=1.0)
    breaker.went_well()
    assert breaker.wait(1.0) == 0
    breaker.failed(at=2.0)
    assert breaker.wait(2.0) == 0.5


def test_the_servers_own_time_counts_even_if_it_is_shorter():
    breaker = Breaker()
    for _ in range(8):
        breaker.failed(at=0.0)
    breaker.failed(at=0.0, retry_after=0.0)
    assert breaker.wait(0.0) == 0


def test_very_many_failures_do_not_overflow():
    breaker = Breaker()
    for _ in range(5000):
        breaker.failed(at=0.0)
    assert breaker.wait(0.0) == LONGEST_PAUSE
