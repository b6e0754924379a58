"""Tests of `streamval.view.marks`."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from streamval.view.marks import (
    Mark,
    chunk_marks,
    cut_times,
    grouped,
    lane_marks,
    released_marks,
    where_time_went,
)
from streamval.view.timeline import WHOLE, AttemptTimes, Checked, Judged, Released


def an_attempt():
    return AttemptTimes(
        1,
        0.0,
        ended=4.0,
        deltas=[0.5, 1.0, 2.0],
        judged=[
            Judged(0, 0, "pass", "", 1.0, 1.0),
            Judged(1, 0, "pass", "", 1.0, 3.0),
            Judged(1, 1, "fail", "no", 3.0, 3.5),
        ],
        checked=[Checked(0, "pass", 3.0), Checked(1, "fail", 3.5)],
        released=[Released(0, "One.", 3.0)],
    )


def lanes():
    return lane_marks(an_attempt(), ["quick", "polite"])


def test_a_chunk_was_cut_when_the_first_lane_was_asked():
    cut = cut_times(an_attempt())
    assert cut == {0: 1.0, 1: 3.0}
    marks = chunk_marks(an_attempt(), cut, {1: "Two!"})
    assert [mark.title for mark in marks] == ["chunk 0: One.", "chunk 1: Two!"]


def test_a_lane_has_a_bar_for_each_verdict_and_says_why():
    quick, slow = lanes()
    assert [(mark.kind, mark.begin, mark.at) for mark in quick] == [("pass", 1.0, 1.0)]
    assert [(mark.kind, mark.begin, mark.at) for mark in slow] == [
        ("pass", 1.0, 3.0),
        ("fail", 3.0, 3.5),
    ]
    assert slow[1].title == "polite: fail on chunk 1 in 500 ms: no"


def test_a_verdict_on_the_whole_is_a_mark_and_no_chunk():
    attempt = an_attempt()
    attempt.judged.append(Judged(0, WHOLE, "fail", "too short", None, 4.0))
    assert cut_times(attempt) == {0: 1.0, 1: 3.0}
    (quick, _) = lane_marks(attempt, ["quick", "polite"])
    assert quick[-1].title == "quick: fail on the whole output: too short"


def test_a_released_chunk_shows_how_long_it_had_waited():
    marks = released_marks(an_attempt(), cut_times(an_attempt()))
    assert [(mark.begin, mark.at) for mark in marks] == [(1.0, 3.0)]


def test_where_time_went_names_the_slowest_lane():
    attempt = an_attempt()
    released = released_marks(attempt, cut_times(attempt))
    names = ["quick", "polite"]
    assert where_time_went(attempt, names, lanes(), released, 4.0) == [
        "first delta after 500 ms",
        "the model wrote for 1.5 s",
        "2 s from the last delta to its end",
        "slowest lane: polite, 2.5 s busy",
        "a chunk waited 2 s at most",
    ]
    attempt.judged[:] = [judged._replace(asked=None) for judged in attempt.judged]
    said = where_time_went(attempt, names, lane_marks(attempt, names), released, 4.0)
    assert said[-1] == "when lanes were asked is not known (emit_verdicts=True)"
    assert not any("waited" in line for line in said)


def test_a_long_reason_is_not_copied_into_every_title():
    reason = "why " * 300_000
    attempt = AttemptTimes(
        1, 0.0, judged=[Judged(0, n, "pass", reason, None, n) for n in range(2000)]
    )
    tracemalloc.start()
    (marks,) = lane_marks(attempt, ["a"])
    assert len(marks[0].title) < 300
    assert tracemalloc.get_traced_memory()[1] < 3_000_000
    tracemalloc.stop()


kinds = st.sampled_from(["pass", "unknown", "fail", "chunk"])
marks = st.builds(
    lambda kind, at, took, chunk: Mark(kind, at, at - took, chunk, "title"),
    kinds,
    st.floats(0, 100),
    st.floats(0, 5),
    st.integers(0, 500),
)


@given(st.lists(marks, max_size=60), st.integers(1, 30))
def test_grouping_hides_no_failure_and_no_stretch_of_time(given_marks, bins):
    shown = list(grouped(given_marks, lambda at: int(at / 100 * bins)))
    failures = [mark for mark in given_marks if mark.kind == "fail"]
    assert [mark for mark in shown if mark.kind == "fail"] == failures
    assert len(shown) <= len(failures) + bins + 1
    for mark in given_marks:
        assert any(one.begin <= mark.begin and mark.at <= one.at for one in shown)
    if any(mark.kind == "unknown" for mark in given_marks):
        assert any(mark.kind == "unknown" for mark in shown)
