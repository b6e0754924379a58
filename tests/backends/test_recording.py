"""Tests of `streamval.backends.recording`."""

import pytest

import streamval as sv
from streamval.backends import read_events
from streamval.errors import UsageError


def test_what_is_no_recording_is_refused(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text("")
    with pytest.raises(UsageError, match="not a recording"):
        sv.ReplayBackend(path)
    path.write_text('{"type": "started"\n')
    with pytest.raises(UsageError, match="line 1"):
        sv.ReplayBackend(path)
    with pytest.raises(UsageError, match="cannot read"):
        sv.ReplayBackend(tmp_path / "none.jsonl")
    with pytest.raises(UsageError, match="speed"):
        sv.ReplayBackend(path, speed=0)


def test_a_torn_last_line_is_left_out_with_a_warning(tmp_path):
    path = tmp_path / "run.jsonl"
    event = sv.TokenEvent(run_id="r", attempt=1, text="Hi")
    line = sv.EventAdapter.dump_json(event)
    path.write_bytes(line + b"\n" + line[:20])
    with pytest.warns(UserWarning, match="torn, and left out"):
        assert list(read_events(path)) == [event]
    path.write_bytes(line + b"\n" + line)  # whole but for its line break
    assert list(read_events(path)) == [event, event]


def test_a_torn_line_in_the_middle_is_an_error_that_names_it(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(
        b'{"type": "tok\n'
        + sv.EventAdapter.dump_json(sv.TokenEvent(run_id="r", attempt=1, text="x"))
    )
    with pytest.raises(UsageError, match="line 1 of"):
        list(read_events(path))
