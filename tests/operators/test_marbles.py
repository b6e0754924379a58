"""The operators in virtual time, each on its own, on observables of reactivex alone."""

import pytest
import reactivex
from reactivex import operators as ops
from reactivex.testing import ReactiveTest, TestScheduler

from streamval import Check, Chunk, PartialValidationResult, Verdict
from streamval.events import ChunkEvent, StreamingDoneEvent, TokenEvent
from streamval.operators import (
    chunk,
    chunk_by_line,
    chunk_by_paragraph,
    chunk_by_sentence,
    chunk_by_word,
    merge_tri_state,
    only,
    release,
    rewrite,
)

on_next, on_error, on_completed = (
    ReactiveTest.on_next,
    ReactiveTest.on_error,
    ReactiveTest.on_completed,
)


def played(operator, *messages):
    """What comes out, and when: (time, value), then how it ended."""
    scheduler = TestScheduler()
    source = scheduler.create_hot_observable(*messages)
    result = scheduler.start(lambda: source.pipe(operator))
    seen = []
    for message in result.messages:
        if message.value.kind == "N":
            seen.append((int(message.time), message.value.value))
        else:
            seen.append((int(message.time), message.value.kind))
    disposed = [int(s.unsubscribe) for s in source.subscriptions]
    return seen, disposed


def texts(seen):
    return [(time, getattr(value, "text", value)) for time, value in seen]


# chunk


def test_chunk_comes_with_the_delta_that_completes_it():
    #   --"One. T"--"wo. "--"x"--|
    # --------------One.-------Two.x|
    seen, _ = played(
        chunk("sentence"),
        *(on_next(210, "One. T"), on_next(220, "wo. "), on_next(230, "Th "), on_completed(240)),
    )
    assert texts(seen) == [(220, "One."), (230, "Two."), (240, "Th"), (240, "C")]


def test_chunk_passes_an_error_on_and_drops_the_fragment():
    seen, disposed = played(chunk("word"), on_next(210, "a b"), on_error(220, "boom"))
    assert texts(seen) == [(210, "a"), (220, "E")]
    assert disposed == [220]


def test_chunk_goes_on_from_an_index_and_an_offset():
    seen, _ = played(chunk("word", index=3, start=10), on_next(210, " a b "), on_completed(220))
    assert [(c.index, c.start, c.end) for _, c in seen[:-1]] == [(3, 11, 12), (4, 13, 14)]


def test_each_subscription_has_a_chunker_of_its_own():
    twice = reactivex.of("a b").pipe(chunk("word"))
    for _ in range(2):
        found = []
        twice.subscribe(lambda c: found.append((c.index, c.text)))
        assert found == [(0, "a"), (1, "b")]


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (chunk_by_sentence(), ["One two.", "Three\nfour", "five"]),
        (chunk_by_word(), ["One", "two.", "Three", "four", "five"]),
        (chunk_by_line(), ["One two. Three", "four", "five"]),
        (chunk_by_paragraph(), ["One two. Three\nfour", "five"]),
    ],
)
def test_chunk_by(operator, expected):
    found = []
    reactivex.of("One two. Three\nfour\n\nfive").pipe(operator).subscribe(found.append)
    assert [c.text for c in found] == expected


# merge_tri_state


def c(index, end=None):
    return Chunk(f"chunk {index}", index, index * 10, end or index * 10 + 9, " ")


def v(lane, index, state, lanes=2, covered=None):
    return Verdict(lane, c(index), PartialValidationResult(state), lanes, None, covered)


def checks(seen):
    return [
        (time, (value.chunk.index, value.success) if isinstance(value, Check) else value)
        for time, value in seen
    ]


def test_a_check_comes_when_every_lane_has_spoken():
    seen, _ = played(
        merge_tri_state(),
        *(on_next(210, v(0, 0, "pass")), on_next(220, v(1, 0, "unknown")), on_completed(230)),
    )
    assert checks(seen) == [(220, (0, "unknown")), (230, "C")]


def test_checks_come_in_chunk_order_whatever_the_order_of_verdicts():
    seen, _ = played(
        merge_tri_state(),
        on_next(210, v(0, 1, "pass")),
        on_next(220, v(1, 1, "pass")),
        on_next(230, v(0, 0, "pass")),
        on_next(240, v(1, 0, "pass")),
        on_completed(250),
    )
    assert checks(seen) == [(240, (0, "pass")), (240, (1, "pass")), (250, "C")]


def test_one_fail_completes_a_chunk_and_ends_the_checks():
    seen, _ = played(
        merge_tri_state(),
        on_next(210, v(0, 0, "fail")),
        on_next(220, v(1, 0, "pass")),
        on_next(230, v(0, 1, "pass")),
        on_next(240, v(1, 1, "pass")),
        on_completed(250),
    )
    assert checks(seen) == [(210, (0, "fail")), (250, "C")]
    assert seen[0][1].results[1] is None


def test_a_later_fail_waits_for_the_chunks_before_it_and_a_lower_one_wins():
    seen, _ = played(
        merge_tri_state(),
        on_next(210, v(0, 1, "fail")),
        on_next(220, v(0, 0, "pass")),
        on_next(230, v(1, 0, "fail")),
        on_completed(240),
    )
    assert checks(seen) == [(230, (0, "fail")), (240, "C")]


@pytest.mark.parametrize(
    ("states", "merged"),
    [
        (["pass", "pass"], "pass"),
        (["pass", "unknown"], "unknown"),
        (["unknown", "fail"], "fail"),
        (["pass", "fail"], "fail"),
    ],
)
def test_fail_beats_unknown_beats_pass(states, merged):
    verdicts = [v(lane, 0, state) for lane, state in enumerate(states)]
    found = []
    reactivex.of(*verdicts).pipe(merge_tri_state()).subscribe(found.append)
    assert [check.success for check in found] == [merged]


# release


def k(index, success="pass", covered=None):
    return Check(c(index), success, (), covered)


def test_without_holds_a_chunk_goes_with_its_check():
    seen, _ = played(
        release(),
        *(on_next(210, k(0)), on_next(220, k(1, "unknown")), on_next(230, k(2, "fail"))),
        on_completed(240),
    )
    assert texts(seen) == [(210, "chunk 0"), (220, "chunk 1"), (240, "C")]


def test_held_chunks_go_when_a_later_pass_covers_them():
    seen, _ = played(
        release(),
        on_next(210, k(0, "unknown", covered=0)),
        on_next(220, k(1, "pass", covered=9)),  # the pass was about chunk 0 alone
        on_next(230, k(2, "pass", covered=29)),
        on_completed(240),
    )
    assert texts(seen) == [(220, "chunk 0"), (230, "chunk 1"), (230, "chunk 2"), (240, "C")]


@pytest.mark.parametrize(("final", "released"), [("pass", ["chunk 0"]), ("fail", [])])
def test_held_chunks_wait_for_the_final_validation(final, released):
    found = []
    source = reactivex.of(k(0, "unknown", covered=0), Check(None, final))
    source.pipe(release()).subscribe(found.append)
    assert [chunk.text for chunk in found] == released


def test_what_is_still_held_at_the_end_is_not_released():
    found = []
    reactivex.of(k(0, "unknown", covered=0)).pipe(release()).subscribe(found.append)
    assert found == []


# rewrite and only


def test_rewrite_changes_the_text_and_nothing_else():
    seen, _ = played(rewrite(str.upper), on_next(210, c(1)), on_completed(220))
    assert seen == [(210, Chunk("CHUNK 1", 1, 10, 19, " ")), (220, "C")]


def test_what_rewrite_raises_is_an_error():
    seen, disposed = played(rewrite(lambda _: 1 / 0), on_next(210, c(0)), on_next(220, c(1)))
    assert seen == [(210, "E")]
    assert disposed == [210]


def test_only():
    token = TokenEvent(run_id="r", attempt=1, text="a")
    done = StreamingDoneEvent(run_id="r", attempt=1, full_text="a")
    seen, _ = played(only(TokenEvent), on_next(210, token), on_next(220, done), on_completed(230))
    assert seen == [(210, token), (230, "C")]
    found = []
    reactivex.of(token, done).pipe(only(ChunkEvent, StreamingDoneEvent)).subscribe(found.append)
    assert found == [done]


# A user's own operator sits beside ours


def test_a_users_own_operator_composes_with_ours():
    def numbered(source):
        return source.pipe(ops.map(lambda chunk: f"{chunk.index + 1}. {chunk.text}"))

    found = []
    reactivex.of("a b").pipe(chunk("word"), numbered).subscribe(found.append)
    assert found == ["1. a", "2. b"]
