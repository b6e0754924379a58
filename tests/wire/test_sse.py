"""Tests of `streamval.wire.sse`."""

import json
from codecs import BOM_UTF8

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamval.errors import StreamBrokenError
from streamval.wire import sse
from streamval.wire.sse import FrameReader, frame

values = st.dictionaries(st.text(max_size=5), st.text(max_size=10), max_size=3)


@given(st.lists(values, max_size=8), st.sampled_from(["\n", "\r\n", "\r"]), st.data())
def test_the_same_frames_however_the_bytes_are_cut(contents, line, data):
    text = "".join(f": hi{line}data: {json.dumps(content)}{line}{line}" for content in contents)
    # A byte order mark swallowed the first frame. A comment follows, as a lone return may go on.
    sent = data.draw(st.sampled_from([b"", BOM_UTF8])) + (text + f":{line}:{line}").encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=10)))
    reader, got = FrameReader(), []
    for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        got += reader.feed(sent[start:end])
    assert [json.loads(one) for one in got] == contents


@given(values)
def test_what_is_made_is_read(content):
    assert [json.loads(one) for one in FrameReader().feed(frame(content).encode())] == [content]


def test_a_frame_without_an_end_is_refused(monkeypatch):
    monkeypatch.setattr(sse, "MAX_FRAME", 100)
    with pytest.raises(StreamBrokenError, match="a line of more than 100 bytes"):
        FrameReader().feed(b"x" * 101)
    reader = FrameReader()
    with pytest.raises(StreamBrokenError, match="a frame of more than 100 bytes"):
        for _ in range(50):
            reader.feed(b"data: xxxx\n")


def test_empty_lines_of_data_count_too(monkeypatch):
    monkeypatch.setattr(sse, "MAX_FRAME", 1000)
    reader = FrameReader()
    with pytest.raises(StreamBrokenError):
        for _ in range(100):
            reader.feed(b"data:\n" * 10)
