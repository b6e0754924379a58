"""Tests of `streamval.backends.recording`."""

import pytest

import streamval as sv
from streamval.errors import UsageError


def test_what_is_no_recording_is_refused(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text("")
    with pytest.raises(UsageError, match="no recording"):
        sv.ReplayBackend(path)
    path.write_text('{"type": "started"')
    with pytest.raises(UsageError, match="line 1"):
        sv.ReplayBackend(path)
    with pytest.raises(UsageError, match="cannot read"):
        sv.ReplayBackend(tmp_path / "none.jsonl")
    with pytest.raises(UsageError, match="speed"):
        sv.ReplayBackend(path, speed=0)
