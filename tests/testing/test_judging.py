"""Tests of `streamval.testing.judging`."""

import pytest

import streamval as sv
from streamval.testing import judge

CALM = sv.stream_check(lambda text: (not text.endswith("!"), "it shouts"), "stay calm")


def test_verdicts_chunk_by_chunk_up_to_the_first_failure():
    judged = judge(CALM, "It rains. Help! It pours.")
    assert judged.verdicts == [("It rains.", "pass"), ("Help!", "fail")]
    assert (judged.success, judged.whole, judged.delivered) == (False, None, "It rains.")
    assert str(judged.failures[0]) == "stay calm: it shouts"


async def test_the_whole_is_judged_and_it_may_be_called_in_a_loop():
    class Short(sv.Requirement):
        async def validate(self, backend, ctx, **_):
            return sv.ValidationResult(len(ctx.last_output().value) < 9, reason="too long")

    assert judge(Short("short"), "One. Two.", chunking="word").whole.reason == "too long"
    judged = judge(Short("short"), "One.")
    assert judged.success
    assert judged.verdicts == [("One.", "unknown")]


@pytest.mark.parametrize("size", [1, 3, 100])
def test_slices_and_chunkings_may_be_given(size):
    judged = judge(sv.no_personal_data(), "Write to a@b.example now.", chunking="word", size=size)
    assert not judged.success
    assert judged.delivered == "Write to"


def test_a_model_that_judges_is_asked():
    backend = sv.ScriptedBackend("yes")
    assert judge("Be kind.", "One.", backend=backend).success


def test_what_it_raises_comes_out():
    with pytest.raises(ZeroDivisionError):
        judge(sv.stream_check(lambda text: 1 / 0), "One.")
